// Package schedules plays schedules of faults over clients that use recipes, and judges what they did and saw: see
// package checker. The faults happen at requests: each connection of a client passes through a wire, which counts the
// client's requests and decides on the fate of each. So the same schedules run in virtual time, on servers inside the
// test process, and in real time, on processes of Rollcall and of ZooKeeper.
package schedules
