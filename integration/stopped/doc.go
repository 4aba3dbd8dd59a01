// Package stopped has no code, only tests: programs with the client's loops go on after SIGSTOP and SIGCONT, against members that
// run as processes.
package stopped
