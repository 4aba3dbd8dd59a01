package contender

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/client/internal/recipetest"
	"rollcall/zk/jute"
)

func lockConfig() Config { return Config{Parent: "/l", Layout: CuratorLock} }

// A contender whose create had no reply adopts its node, and deletes each other one that a late create has made.
func TestEnterDeletesDuplicates(t *testing.T) {
	recipetest.Run(t, 1, func(b *recipetest.Bed) {
		c := b.Clients[0]
		b.CreateNode("/l")
		b.LoseReply(jute.OpCreate2)
		b.Before(c, jute.OpGetChildren2, 1, func(string) {
			created := b.Children("/l")
			name, _, _ := strings.Cut(created[0], "-lock-")
			b.CreateEphemeral("/l/"+name+"-lock-0000000007", recipetest.ID(c))
		})
		x, err := Enter(b.Ctx, c, lockConfig())
		b.Must(err)
		names := b.Children("/l")
		if len(names) != 1 || x.Path() != "/l/"+names[0] || !strings.HasSuffix(x.Path(), "-lock-0000000000") {
			b.Errorf("the contender is %s, its parent has %q", x.Path(), names)
		}
		if creates := b.RequestCount(jute.OpCreate2); creates != 1 {
			b.Errorf("%d creates, want 1", creates)
		}
	})
}

// A create without a reply may make a node with the contender's id later. The contender deletes it when it checks its
// turn, and at the end of its right.
func TestLateDuplicates(t *testing.T) {
	recipetest.Run(t, 1, func(b *recipetest.Bed) {
		c := b.Clients[0]
		b.CreateNode("/l")
		b.LoseReply(jute.OpCreate2)
		x, err := Enter(b.Ctx, c, lockConfig())
		b.Must(err)
		duplicate := func(number string) {
			path, _, _ := strings.Cut(x.Path(), "-lock-")
			b.CreateEphemeral(path+"-lock-"+number, recipetest.ID(c))
		}
		duplicate("0000000007")
		b.Must(x.AwaitTurn(b.Ctx))
		if names := b.Children("/l"); len(names) != 1 {
			b.Errorf("with its turn, the contender has the nodes %q", names)
		}
		right, err := x.Right(b.Ctx)
		b.Must(err)
		duplicate("0000000009")
		b.Must(right.Release(b.Ctx))
		synctest.Wait()
		if names := b.Children("/l"); len(names) > 0 {
			b.Errorf("left behind: %q", names)
		}
	})
}

// A contender that gives up after a create without a reply leaves no node.
func TestEnterGivesUp(t *testing.T) {
	recipetest.Run(t, 1, func(b *recipetest.Bed) {
		c := b.Clients[0]
		b.CreateNode("/l")
		b.LoseReply(jute.OpCreate2)
		b.Before(c, jute.OpSync, 1, func(string) { b.Disconnect(true) })
		ctx, cancel := context.WithTimeout(b.Ctx, time.Second)
		defer cancel()
		if _, err := Enter(ctx, c, lockConfig()); !errors.Is(err, context.DeadlineExceeded) || len(b.Children("/l")) != 1 {
			b.Fatalf("%v, the nodes are %q", err, b.Children("/l"))
		}
		b.AllowConnections()
		b.Reconnect()
		synctest.Wait()
		if names := b.Children("/l"); len(names) > 0 {
			b.Errorf("left behind: %q", names)
		}
	})
}

// Contenders have their turns in the order of their nodes, and each waits for the one before it alone.
func TestTurns(t *testing.T) {
	recipetest.Run(t, 3, func(b *recipetest.Bed) {
		var contenders []*Contender
		for _, c := range b.Clients {
			x, err := Enter(b.Ctx, c, lockConfig())
			b.Must(err)
			contenders = append(contenders, x)
		}
		turns := make(chan int, len(contenders))
		for i, x := range contenders {
			go func() {
				if err := x.AwaitTurn(b.Ctx); err == nil {
					turns <- i
				}
			}()
		}
		for i, x := range contenders {
			synctest.Wait()
			if len(turns) != 1 || <-turns != i {
				b.Fatalf("contender %d is not the only one that has its turn", i)
			}
			if i+2 < len(contenders) {
				watches := b.Watches(recipetest.ID(b.Clients[i+2]))
				if len(watches) != 1 || watches[0] != "data "+contenders[i+1].Path() {
					b.Errorf("the last contender watches %q", watches)
				}
			}
			b.Must(x.Leave(b.Ctx))
		}
	})
}

// A contender whose node another client deletes has left, also if its parent is deleted.
func TestTurnOfRemovedContender(t *testing.T) {
	recipetest.Run(t, 2, func(b *recipetest.Bed) {
		first, err := Enter(b.Ctx, b.Clients[0], lockConfig())
		b.Must(err)
		second, err := Enter(b.Ctx, b.Clients[1], lockConfig())
		b.Must(err)
		failed := make(chan error)
		go func() { failed <- second.AwaitTurn(b.Ctx) }()
		synctest.Wait()
		b.DeleteNode(second.Path())
		b.DeleteNode(first.Path())
		b.DeleteNode("/l")
		if err := <-failed; !errors.Is(err, ErrRemoved) {
			b.Errorf("%v, want %v", err, ErrRemoved)
		}
	})
}

// A parent with another child is no place for contenders, and none stays there.
func TestForeignChild(t *testing.T) {
	recipetest.Run(t, 1, func(b *recipetest.Bed) {
		b.ApplyChanges("+/l", "+/l/other")
		x, err := Enter(b.Ctx, b.Clients[0], lockConfig())
		b.Must(err)
		foreign, ok := errors.AsType[*ForeignError](x.AwaitTurn(b.Ctx))
		if !ok || len(foreign.Names) != 1 || foreign.Names[0] != "other" {
			b.Errorf("%v, want a ForeignError", foreign)
		}
		if names := b.Children("/l"); len(names) != 1 {
			b.Errorf("left behind: %q", names)
		}
	})
}

// The right ends with the session, and with the node.
func TestRightEnds(t *testing.T) {
	for name, end := range map[string]func(b *recipetest.Bed, right *client.Right){
		"session": func(b *recipetest.Bed, _ *client.Right) { b.Expire(b.Clients[0]) },
		"node":    func(b *recipetest.Bed, right *client.Right) { b.DeleteNode(right.Path()) },
	} {
		recipetest.Run(t, 1, func(b *recipetest.Bed) {
			x, err := Enter(b.Ctx, b.Clients[0], lockConfig())
			b.Must(err)
			right, err := x.Right(b.Ctx)
			b.Must(err)
			synctest.Wait()
			if !right.Held() {
				b.Fatal("not held")
			}
			end(b, right)
			synctest.Wait()
			if right.Held() {
				b.Errorf("held after the end of the %s", name)
			}
		})
	}
}

// Contenders that have stopped are passed over, however many are one behind the other: after as many limits as there are, up to
// mostShortTurns.
func TestShortTurnBehindStopped(t *testing.T) {
	const limit = time.Second
	for _, stopped := range []int{0, 1, 2, 3, 50} {
		recipetest.Run(t, 1, func(b *recipetest.Bed) {
			b.CreateNode("/l")
			for range stopped {
				_, err := Enter(b.Ctx, b.Clients[0], lockConfig())
				b.Must(err)
			}
			x, err := Enter(b.Ctx, b.Clients[0], lockConfig())
			b.Must(err)
			began := time.Now()
			waited, err := x.AwaitShortTurn(b.Ctx, limit)
			b.Must(err)
			if want := time.Duration(min(stopped, mostShortTurns)) * limit; time.Since(began) != want || waited != (stopped > 0) {
				b.Errorf("behind %d: it took %v, want %v; waited: %t", stopped, time.Since(began), want, waited)
			}
			if names := b.Children("/l"); len(names) != max(stopped, 1) {
				b.Errorf("behind %d: %d contenders are left", stopped, len(names))
			}
		})
	}
}
