// Command program is right for Linux, has an error for macOS, and lacks a function for other systems.
package main

import "os"

func main() { os.Stdout.WriteString(system()) }
