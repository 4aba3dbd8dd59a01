// Package house checks the tree as a whole: which directories import which, how large types are, and what the pages of
// documentation lead to. It has tests only. They run in the root of the tree.
package house
