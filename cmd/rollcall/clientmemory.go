package main

import (
	"rollcall/config"
	"rollcall/internal/tuning"
)

// Clients' unread replies and waiting requests may take one clientShare-th of the memory. The garbage
// collector may leave as much again unfreed. State, log and traffic between members need memory too.
const clientShare = 8

// clientMemoryBudget returns the memory for the clients of each of several members in this process.
func clientMemoryBudget(configured int64, members int) int64 {
	if configured != 0 {
		return configured
	}
	available := tuning.AvailableMemory()
	if available == 0 {
		return 0 // the server's default
	}
	return max(available/clientShare/int64(members), config.MinClientMemory)
}
