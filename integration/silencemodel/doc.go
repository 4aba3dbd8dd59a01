// Package silencemodel plays random schedules of a small ensemble in which one client falls silent: clocks that run at 0.9 to 1.1 of
// their speed, pauses of processes, members and leaders that are lost and run again, hand-overs, links that break, and a session
// that moves while there is no leader. It checks that no session ends sooner than its timeout after the last moment at which
// it was heard by a process that can still tell, or that had told a leader which a majority confirmed. The time without a leader does
// not count. Rules turns single conditions of the protocol off: without each, some schedule ends a session early.
//
// It is a model of docs/sessions.md, "Silence over changes of leader", and shares no code with the members. Time passes in steps,
// of which a tick has 20.
package silencemodel
