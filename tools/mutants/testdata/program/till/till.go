// Package till uses package shop.
package till

import "program/shop"

func Half(n int) int { return shop.Middle(0, n) }
