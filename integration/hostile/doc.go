// Package hostile holds only tests. Hostile clients, and strangers at the ports for members, attack
// one of three members, which are processes of the real binary, while other clients go on with their
// work. Each test measures how
// long the others wait before and during the attack, and the members' memory. What counts is the
// ratio of the two waits, because a slow machine is slow in both.
package hostile
