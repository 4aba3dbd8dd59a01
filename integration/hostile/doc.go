// Package hostile holds tests alone: clients that mean harm attack one of three members, which
// are processes of the real binary, while other clients go on with their work. Each test
// measures what the others wait for before the attack and during it, and the members' memory.
// What counts is the ratio of the two: a slow machine is slow in both.
package hostile
