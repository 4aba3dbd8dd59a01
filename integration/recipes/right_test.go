package recipes

import (
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/client/recipe"
	"rollcall/rollcalltest"
)

// A right ends when another session has made a node at its path while the connection was broken.
func TestRightOfReplacedNode(t *testing.T) {
	inScene(t, func(s *scene) {
		a, b := s.client(), s.client()
		_, stat, err := a.Create(s.ctx, "/leader", nil, client.Ephemeral)
		s.check(err)
		right := recipe.NewRight(a, "/leader", stat)
		release := make(chan struct{})
		s.srv.OnRequest(breakAndHold(a, lostRequest, release, func(r rollcalltest.Request) bool { return r.Op == "sync" }))
		go func() { _ = a.Sync(s.ctx) }()
		synctest.Wait()
		s.check(b.Delete(s.ctx, "/leader", client.AnyVersion))
		_, _, err = b.Create(s.ctx, "/leader", nil, client.Ephemeral)
		s.check(err)
		close(release)
		select {
		case <-right.Lost():
		case <-s.ctx.Done():
			s.t.Fatal("the right goes on")
		}
		if !a.Held() {
			s.t.Error("the right ended with the Client's, and not because of the node")
		}
		s.check(right.Release(s.ctx))
		if _, exists, err := b.Exists(s.ctx, "/leader"); err != nil || !exists {
			s.t.Errorf("after the release, the other session's node exists: %t, %v", exists, err)
		}
	})
}

// A right that begins when the last proof is too old has ended: a member that is cut off from the leader replies to pings.
func TestRightNeedsProof(t *testing.T) {
	inScene(t, func(s *scene) {
		c := s.client()
		_, stat, err := c.Create(s.ctx, "/leader", nil, client.Ephemeral)
		s.check(err)
		time.Sleep(2 * sessionTimeout)
		defer c.AfterRight(func() {})() // the right lasts on until the sync for it has its reply
		if !c.Held() || recipe.NewRight(c, "/leader", stat).Held() {
			s.t.Errorf("the Client holds its right: %t; the Right is held without a proof", c.Held())
		}
		s.check(recipe.Prove(s.ctx, c))
		right := recipe.NewRight(c, "/leader", stat)
		if !right.Held() {
			s.t.Error("the Right is not held after a proof")
		}
		s.check(right.Release(s.ctx))
	})
}
