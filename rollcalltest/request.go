package rollcalltest

import "time"

// Request is one request of a client on its way to a server.
type Request struct {
	Server  int   // the number of the server that gets it, from 1
	Session int64 // 0 if the client opens a session with it

	// Number counts the requests of all clients to all servers, from 1. If several clients send at the same time, chance
	// decides on their order, in a testing/synctest bubble too.
	Number int

	// InSession counts the requests of the session, from 1, over all its connections. It does not count connects and
	// pings, for which it is 0. It depends only on the order in which the client sends.
	InSession int

	// Op is ZooKeeper's name of the operation, such as create, create2, getData, multi, setWatches, closeSession or ping.
	// The first request of each connection, which opens or resumes a session, is OpConnect.
	Op string

	// Path is the path in the request; in a multi, that of the first operation; "" if there is none.
	Path string
}

// OpConnect is the Op of the first request of a connection.
const OpConnect = "connect"

// Verdict is the fate of a request. The zero value lets it pass.
type Verdict struct {
	// LoseRequest breaks the connection before the request is carried out. The requests before it on the same
	// connection get their replies first.
	LoseRequest bool

	// LoseReply breaks the connection in place of the reply: the request is carried out, and the client never knows.
	// The replies before it arrive. No later request of the connection is carried out.
	LoseReply bool

	// Delay holds the reply back for this time, and with it everything that the server sends later on the connection.
	Delay time.Duration
}

// combine returns the verdict with the faults of both.
func (v Verdict) combine(other Verdict) Verdict {
	return Verdict{
		LoseRequest: v.LoseRequest || other.LoseRequest,
		LoseReply:   v.LoseReply || other.LoseReply,
		Delay:       max(v.Delay, other.Delay),
	}
}
