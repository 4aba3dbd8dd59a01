package kills

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"rollcall/lab/process"
	"rollcall/operator/api"
)

// operator sends requests to members over HTTP, and changes the list of servers by rollcall members.
type operator struct {
	tokenFile string
	asker     http.Client
}

// attempt is the time that one command may take. A member that is paused does not reply, and a member that was started
// again replies at another port.
const attempt = 5 * time.Second

func newOperator(t *testing.T) *operator {
	t.Helper()
	o := &operator{tokenFile: filepath.Join(t.TempDir(), "token"), asker: http.Client{Timeout: 3 * time.Second}}
	if err := os.WriteFile(o.tokenFile, []byte("abcdefghijklmnop\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.asker.CloseIdleConnections)
	return o
}

// lines returns the lines of zoo.cfg with which members serve the operator.
func (o *operator) lines() string { return process.AnyHTTP + "admin.tokenFile=" + o.tokenFile + "\n" }

// members runs rollcall members at one member, which need not survive that.
func (o *operator) members(ctx context.Context, binary string, m *process.Member, args ...string) error {
	address, err := m.HTTP()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	args = slices.Concat([]string{"members", args[0], "--admin", "http://" + address, "--token-file", o.tokenFile}, args[1:])
	if out, err := exec.CommandContext(ctx, binary, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("member %d: rollcall members %q: %w: %s", m.ID, args[5:], err, out)
	}
	return nil
}

// change runs rollcall members at one member after the other, until one of them says that it is done.
func (o *operator) change(ctx context.Context, binary string, members []*process.Member, args ...string) error {
	var last error
	for i := 0; ctx.Err() == nil; i++ {
		if last = o.members(ctx, binary, members[i%len(members)], args...); last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	return errors.Join(ctx.Err(), last)
}

// getV1 returns a member's reply to GET /v1/path.
func getV1[T any](ctx context.Context, o *operator, m *process.Member, path string) (answer T, err error) {
	address, err := m.HTTP()
	if err != nil {
		return answer, err
	}
	answer, err = api.Get[T](ctx, &api.Client{BaseURL: "http://" + address, HTTPClient: &o.asker}, path, nil)
	if err != nil {
		return answer, fmt.Errorf("member %d: %w", m.ID, err)
	}
	return answer, nil
}

// checkWhole returns nil if each of the members reports that the list has them and no others, and that all of them serve and
// vote. Otherwise the error names the missing fact.
func (o *operator) checkWhole(ctx context.Context, members []*process.Member) error {
	for _, m := range members {
		list, err := getV1[api.Members](ctx, o, m, "members")
		if err != nil {
			return err
		}
		if !list.IsSettled || list.LeaderID == 0 || len(list.Items) != len(members) {
			return fmt.Errorf("member %d knows the leader %d and %d servers, settled %t; want %d servers",
				m.ID, list.LeaderID, len(list.Items), list.IsSettled, len(members))
		}
		for _, s := range list.Items {
			known := slices.ContainsFunc(members, func(m *process.Member) bool { return uint32(m.ID) == s.MemberID })
			if serves := s.State == api.StateLeader || s.State == api.StateFollower; !known || !s.IsVoter || !serves {
				return fmt.Errorf("member %d says that member %d is %q, votes %t (%s)", m.ID, s.MemberID, s.State, s.IsVoter, s.Detail)
			}
		}
	}
	return nil
}

// errApartStates reports that a member's state differs from the others' state.
var errApartStates = errors.New("a member's state differs")

// agree returns nil if one of the members says that the digests of all members agree.
func (o *operator) agree(ctx context.Context, members []*process.Member) error {
	list, err := getV1[api.List[api.Member]](ctx, o, members[0], "status")
	if err != nil {
		return err
	}
	if len(list.Items) != len(members) {
		return fmt.Errorf("%d members answer, want %d", len(list.Items), len(members))
	}
	for _, m := range list.Items {
		switch {
		case m.DigestVerdict == "differs" || m.DamageReason != "":
			return fmt.Errorf("%w: member %d: digest %s at index %d, damage %q", errApartStates, m.MemberID, m.DigestVerdict, m.DigestIndex, m.DamageReason)
		case m.DigestVerdict != "agrees":
			return fmt.Errorf("member %d: digest %s", m.MemberID, m.DigestVerdict)
		}
	}
	return nil
}

// await waits until holds returns nil, at most until the time limit.
func await(ctx context.Context, what string, limit time.Time, holds func() error) error {
	for {
		err := holds()
		if err == nil {
			return nil
		}
		if time.Now().After(limit) || ctx.Err() != nil || errors.Is(err, errApartStates) {
			return fmt.Errorf("%s: %w", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
