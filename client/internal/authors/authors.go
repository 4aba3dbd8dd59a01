// Package authors hands the tools for authors of recipes from package client to package recipe. So the documentation of
// package client has only what programs need.
package authors

// Tools are package client's. Their type is an interface of package recipe, which this package cannot name.
var Tools any
