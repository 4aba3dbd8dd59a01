// Package hostile holds only tests. Hostile clients, and strangers at the ports for members, attack
// one of three members, which are processes of the real binary, while other clients continue their
// work. Each test measures the members' memory, and the time that the others wait before and during
// the attack. The ratio of the two waits counts, because a slow machine is slow in both.
package hostile
