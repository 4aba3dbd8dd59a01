// Package election elects one of many clients as the leader.
//
//	e := election.New(c, "/app/leader", election.Config{Data: []byte("10.0.0.7:8080"), OnHang: func() { os.Exit(1) }})
//	err := e.Run(ctx, func(ctx context.Context, l *election.Leadership) error {
//		return serve(ctx, l) // until ctx ends
//	})
//
// # Guarantees
//
//   - Candidates are ordered by the time at which they entered. The first one leads.
//   - A Leadership is a client.Right. Held is exact at the moment of the call: while it returns true, the ensemble has
//     given the leadership to nobody else. Guard carries writes out only if the leadership is still held. Token is the
//     fencing token, which grows with every leader, for stores outside of the ensemble.
//   - The leadership ends when it is given up, when another client deletes its node, and when the Client may not act
//     on its session any more: see Rights in package client. The context of Run's function and Lost and OnLost report
//     that, but timers do not run while a process is stopped. So check Held, or use Guard or Token, where two leaders
//     would do harm.
//   - A lost connection does not end the leadership, as long as the session is heard in time. A create whose reply is
//     lost is found again.
//   - A candidate that gives up (its ctx ends) leaves no node, in the background if necessary.
//   - If a leader ends, one candidate is woken. If a candidate ends, the one after it is. There is one request for the
//     list of candidates each time.
//
// # Hand-over
//
// Leadership.HandOver gives the leadership to a candidate that it names. No third one leads in between, and there is no
// time without a leader: one transaction deletes the leader's node and those of the candidates between. The order is by
// the servers' numbers, so the candidates between cannot keep their places. They enter again, after all others.
//
// # Layout
//
// The parent is a container with an ephemeral sequential node for each candidate. The default is that of Curator's
// LeaderLatch: _c_<uuid>-latch-<number>, whose data are the id of the participant. See Layout for others. Clients of
// Curator and kazoo can be candidates under the same parent if the layout is theirs. All methods fail if the parent has
// other nodes: see ErrForeignContenders.
package election
