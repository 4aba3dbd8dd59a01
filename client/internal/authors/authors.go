// Package authors hands the tools for authors of recipes from package client to package recipe. So the documentation of
// package client has only what programs need.
package authors

import "context"

// Tools are the tools, with package client's types, which this package cannot name. Package recipe documents them.
type Tools[Client, Right, Stat, Token any] struct {
	Prove         func(context.Context, *Client) error
	NewRight      func(*Client, string, Stat, Token) *Right
	End           func(*Right)
	Outlast       func(*Right, context.Context) (context.Context, context.CancelFunc)
	AwaitWritable func(context.Context, *Client) error
	IsSuccessor   func(*Client) bool
	Inherited     func(*Client, Stat) bool
	Shared        func(c *Client, key any, create func() any) any
}

// OfClient are the Tools of package client.
var OfClient any
