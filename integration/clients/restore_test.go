package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"rollcall/integration/needs"
	"rollcall/lab/process"
	"rollcall/operator/backup"
	"rollcall/znode"
)

// askMember sends a request of the class changes to a member. It returns the body of the reply, and an error unless the
// status is want.
func askMember(ctx context.Context, m *process.Member, method, path string, body []byte, want int) ([]byte, error) {
	addr, err := m.HTTP()
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "digest super:secret")
	r.Header.Set("Content-Type", "application/octet-stream")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != want {
		err = fmt.Errorf("%s %s on member %d: %s: %s", method, path, m.ID, answer.Status, text)
	}
	return text, err
}

// restorable returns the part of each node of a backup that a restore brings back.
func restorable(file []byte) (map[string]string, error) {
	nodes := map[string]string{}
	_, _, err := backup.Read(bytes.NewReader(file), znode.ImageVisitor{Node: func(n znode.ImageNode) error {
		if n.OwnerSession == 0 && !strings.HasPrefix(n.Path, "/zookeeper") {
			nodes[n.Path] = fmt.Sprintf("%q %v", n.Data, n.ACL)
		}
		return nil
	}})
	return nodes, err
}

// The AdminServer's commands snapshot and restore bring the nodes of an ensemble back, on all members, while a client of kazoo
// keeps its session, its ephemeral node and its watch.
func TestKazooRestored(t *testing.T) {
	needs.Check(t, needs.Usual)
	needs.Check(t, needs.Kazoo)
	e := process.StartEnsemble(t, process.Config{
		Binary: rollcall, Size: 3, Tick: tick,
		Lines: process.AnyHTTP + "DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=\n",
	})
	leader := e.Settle()
	others := e.Members[:0:0]
	for _, m := range e.Members {
		if m != leader {
			others = append(others, m)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	var file []byte
	save := func() (err error) {
		file, err = askMember(ctx, leader, "GET", "/commands/snapshot", nil, http.StatusOK)
		return err
	}
	restore := func() error {
		if _, err := askMember(ctx, others[1], "POST", "/commands/restore", file[:len(file)-1], http.StatusBadRequest); err != nil {
			return err
		}
		text, err := askMember(ctx, others[1], "POST", "/commands/restore", file, http.StatusOK)
		if err != nil {
			return err
		}
		var done struct {
			Zxid    int64 `json:"last_zxid"`
			Nodes   int
			Deleted int
			Error   any
		}
		if err := json.Unmarshal(text, &done); err != nil {
			return err
		}
		if done.Zxid == 0 || done.Nodes == 0 || done.Deleted != 2 || done.Error != nil {
			return fmt.Errorf("restored: %s", text)
		}
		_, err = askMember(ctx, others[1], "POST", "/commands/restore", file, http.StatusTooManyRequests)
		return err
	}
	cmd := exec.Command(python, "-B", "python/kazoo_cases.py", "restored", others[0].Clients)
	if err := obey(ctx, "kazoo-restored", cmd, map[string]func() error{
		"save": save, "restore": restore, "ok": func() error { return nil },
	}); err != nil {
		t.Fatal(err)
	}
	want, err := restorable(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range e.Members {
		now, err := askMember(ctx, m, "GET", "/v1/backup", nil, http.StatusOK)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := restorable(now); err != nil || !maps.Equal(got, want) {
			t.Errorf("member %d has\n%v\nthe backup\n%v\n%v", m.ID, got, want, err)
		}
	}
	fmt.Println("client scenario: kazoo-restored ok")
}
