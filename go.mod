module github.com/ma2h/ma2h-go

go 1.26

require (
	github.com/go-json-experiment/json v1.27.2
	github.com/gowebpki/jcs v1.0.2
)
