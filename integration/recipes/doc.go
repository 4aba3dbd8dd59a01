// Package recipes tests the recipes of the client module on real servers in virtual time.
package recipes
