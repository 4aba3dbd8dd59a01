package client

import "context"

// LinearizableReads makes no read of a Client stale, as an Auth of Config.Auth: each shows every write that any client was told of, and
// everything that any other such read has shown, before it was sent. On an ensemble of Rollcall whose readConsistency is linearizable, reads are
// so already. On another one, each read waits for the leader. A server of ZooKeeper rejects the Auth, and the Client ends with ErrAuthFailed.
func LinearizableReads() Auth { return Auth{Scheme: "readConsistency", Proof: []byte("linearizable")} }

// SequentialReads allows stale reads on an ensemble of Rollcall whose readConsistency is linearizable, as an Auth of Config.Auth: no read waits.
// A server of ZooKeeper rejects it, and the Client ends with ErrAuthFailed.
func SequentialReads() Auth { return Auth{Scheme: "readConsistency", Proof: []byte("sequential")} }

type freshReads struct{}

// WithFreshReads returns a context with which a read of a Client shows everything that was acknowledged before it was sent: a sync goes directly
// before the read, on the same connection, so it takes a round trip to the leader. Watches and a Pipeline take no notice of it. On ZooKeeper such
// a read may still be stale while a leader that has lost its majority does not know it.
func WithFreshReads(ctx context.Context) context.Context {
	return context.WithValue(ctx, freshReads{}, true)
}

func hasFreshReads(ctx context.Context) bool { return ctx.Value(freshReads{}) != nil }
