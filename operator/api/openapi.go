package api

import _ "embed"

// OpenAPI describes the endpoints under /v1/ as OpenAPI 3, in JSON.
//
//go:embed openapi.json
var OpenAPI []byte
