package rollcalltest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"rollcall/rollcalltest"
)

// register is a part of the application: it registers a worker. If the connection breaks, it tries again. A node that
// is there already is its own if its session owns it: then the lost reply was a success.
func register(conn *zk.Conn, name string) error {
	path := "/worker-" + name
	for {
		_, err := conn.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
		switch {
		case isDisconnected(err):
			continue
		case !errors.Is(err, zk.ErrNodeExists):
			return err
		}
		switch _, stat, err := conn.Exists(path); {
		case isDisconnected(err):
			continue
		case err != nil:
			return err
		case stat.EphemeralOwner != conn.SessionID():
			return fmt.Errorf("another worker is called %s", name)
		}
		return nil
	}
}

// isDisconnected reports whether a request had no connection, or lost it.
func isDisconnected(err error) bool {
	return errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer)
}

// An application that uses go-zookeeper/zk is tested with a lost reply and an expired session. In a test, Start(t) does
// in one line what New and Close do here.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e, err := rollcalltest.New(ctx, 1, rollcalltest.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()
	expired := make(chan zk.Event, 1)
	conn, _, err := zk.Connect(strings.Split(e.ConnectString(), ","), 10*time.Second, zk.WithLogger(quiet{}),
		zk.WithEventCallback(func(e zk.Event) {
			if e.State == zk.StateExpired {
				expired <- e
			}
		}))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()

	fmt.Println("register:", register(conn, "ada"))
	_ = e.LoseReply(0, 1)
	fmt.Println("register, and the reply is lost:", register(conn, "grace"))
	_ = e.ExpireSession(conn.SessionID())
	fmt.Println("session:", (<-expired).State)
	// Output:
	// register: <nil>
	// register, and the reply is lost: <nil>
	// session: StateExpired
}
