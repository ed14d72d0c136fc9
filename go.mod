module github.com/ma2h/ma2h-go

go 1.26.0

require github.com/go-json-experiment/json v1.27.2

require (
	golang.org/x/crypto v0.59.0
	golang.org/x/sys v0.50.0 // indirect
)
