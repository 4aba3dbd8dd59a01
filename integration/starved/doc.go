// Package starved runs members as processes that get too little of the machine, or stop for a moment again and again. Nothing
// fails there, so no leader may lose its place. The tests run in real time, and are in the nightly form only.
package starved
