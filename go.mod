module github.com/ma2h/ma2h-go

go 1.26

require github.com/go-json-experiment/json v1.27.2

require github.com/google/jsonschema-go v0.4.3
