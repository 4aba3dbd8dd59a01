package kills

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"rollcall/integration/needs"
	"rollcall/integration/wire"
	"rollcall/lab/process"
	"rollcall/zk/jute"
)

// leaderKills is the number of the six kills of TestMembersReplaced that must hit a leader: it may have changed a moment
// before.
const leaderKills = 3

// One member grows to three. Each of them is replaced by a new one, with another id and on other ports. Then the
// ensemble grows to five, and shrinks to three again. All this is under load, and from three members on a leader is
// killed while each change is made. No session is lost, and nothing acknowledged is.
func TestMembersReplaced(t *testing.T) {
	needs.Check(t, needs.Usual)
	began := time.Now()
	r := &run{t: t, sum: &totals{kills: map[role]int{}}, rng: rand.New(rand.NewPCG(1, 11)), left: map[string]bool{}}
	r.Ensemble = process.StartEnsemble(t, process.Config{
		Binary: rollcall, Flags: []string{"-v"}, Size: 1, Grows: true, Tick: tick,
		Lines: "snapCount=2000\nmaxClientCnxns=0\nreconfigEnabled=true\nDigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=\n",
	})
	for id := 2; id <= 8; id++ {
		r.coming = append(r.coming, r.NewMember(id))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.load(ctx)
	sessions := sessionsOf(r.writers)

	r.grow(nil) // two members cannot spare one
	r.grow(nil)
	r.judge(ctx)
	for _, old := range slices.Clone(r.Members) {
		next := r.comes()
		r.change(line(next), fmt.Sprint(old.ID), r.killWhileChanging)
		r.leave(old)
		r.awaitAllServing()
		r.awaitWrites()
	}
	r.judge(ctx)
	r.grow(r.killWhileChanging)
	r.grow(r.killWhileChanging)
	r.judge(ctx)
	first, second := r.Members[0], r.Members[1]
	r.change("", fmt.Sprintf("%d,%d", first.ID, second.ID), r.killWhileChanging)
	r.leave(first)
	r.leave(second)
	r.awaitAllServing()
	r.judge(ctx)

	if got := sessionsOf(r.writers); !slices.Equal(got, sessions) {
		t.Errorf("sessions %v became %v", sessions, got)
	}
	if r.sum.kills[leader] < leaderKills {
		t.Errorf("%d members were killed while they led, want at least %d: this shows too little", r.sum.kills[leader], leaderKills)
	}
	fmt.Printf("one member grew to three, which 4 to 6 replaced, then to five, and shrank to three: %d leaders killed, %d writes acknowledged, in %v\n",
		r.sum.kills[leader], r.countAcked(), time.Since(began).Round(time.Second))
}

// grow adds the next member that is to come in. meanwhile runs at the same time.
func (r *run) grow(meanwhile func()) {
	r.t.Helper()
	r.change(line(r.comes()), "", meanwhile)
	r.awaitAllServing()
	r.Joined()
	r.awaitWrites()
}

func sessionsOf(writers []*writer) (ids []jute.SessionID) {
	for _, w := range writers {
		ids = append(ids, w.client.Session())
	}
	return ids
}

// comes starts the next member that is to come in.
func (r *run) comes() *process.Member {
	r.t.Helper()
	m := r.coming[0]
	r.coming = r.coming[1:]
	r.Add(m)
	return m
}

// line returns a member's server line as reconfig wants it.
func line(m *process.Member) string { return m.Line + ";" + m.Clients }

// change requests a change of the server list until a member has made it. meanwhile runs at the same time.
func (r *run) change(joining, leaving string, meanwhile func()) {
	r.t.Helper()
	done := make(chan error, 1)
	members := slices.Clone(r.Members)
	go func() {
		var last error
		err := process.Until(r.t.Context(), "the list changes", func() bool {
			last = reconfigure(members[r.turn.Add(1)%uint64(len(members))], joining, leaving)
			return last == nil
		})
		if err != nil {
			err = fmt.Errorf("%w: %w", err, last)
		}
		done <- err
	}()
	if meanwhile != nil {
		meanwhile()
	}
	if err := <-done; err != nil {
		r.t.Fatalf("reconfig %q %q: %v", joining, leaving, err)
	}
}

// killWhileChanging kills the leader and starts it again.
func (r *run) killWhileChanging() {
	r.continueLoad(400)
	m := r.leads()
	r.strike(leader, []*process.Member{m})
	r.continueLoad(400)
	r.restart([]*process.Member{m})
}

// reconfigure requests a change from one member, as super.
func reconfigure(m *process.Member, joining, leaving string) error {
	raw, err := net.DialTimeout("tcp", m.Clients, time.Second)
	if err != nil {
		return err
	}
	conn := wire.New(raw)
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := conn.Open(sessionTimeout); err != nil {
		return err
	}
	auth := &jute.AuthPacket{Scheme: []byte("digest"), Auth: []byte("super:secret")}
	if r, _, err := conn.Call(jute.XidAuth, jute.OpAuth, auth); err != nil || r.Err != jute.OK {
		return errors.Join(err, r.Err)
	}
	req := &jute.ReconfigRequest{CurConfigID: -1}
	if joining != "" {
		req.JoiningServers = []byte(joining)
	}
	if leaving != "" {
		req.LeavingServers = []byte(leaving)
	}
	r, _, err := conn.Call(1, jute.OpReconfig, req)
	if err == nil && r.Err != jute.OK {
		err = r.Err
	}
	if err == nil {
		_, _, err = conn.Call(2, jute.OpCloseSession, nil)
	}
	return err
}

// leave stops a member once it says that it was removed. After it has left the list it votes until raft's configuration
// is without it, and the others may need its vote.
func (r *run) leave(m *process.Member) {
	r.t.Helper()
	err := process.Until(r.t.Context(), fmt.Sprintf("member %d says that it was removed", m.ID), func() bool {
		text, err := os.ReadFile(m.Log)
		return err == nil && bytes.Contains(text, []byte("this member was removed from the ensemble"))
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.Remove(m)
}
