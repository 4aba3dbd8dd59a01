// Package past holds only tests. Members keep the past while they are killed and started again, and every state that a client was told
// of can be built from what each of them keeps.
package past
