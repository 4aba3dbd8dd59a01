package clients

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	ours "rollcall/client"
	"rollcall/integration/needs"
	"rollcall/lab/process"
)

// memberKerberos is an ensemble whose members prove themselves by Kerberos, with a KDC.
type memberKerberos struct {
	*kdc
	*process.Ensemble
	life time.Duration // of tickets
}

// memberKerberosLines are of each zoo.cfg, as ZooKeeper's members have them. DIR has krb5.conf.
const memberKerberosLines = fewElections + process.AnyHTTP + `reconfigEnabled=true
DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=
java.security.krb5.conf=DIR/krb5.conf
quorum.auth.enableSasl=true
quorum.auth.learnerRequireSasl=true
quorum.auth.serverRequireSasl=true
quorum.auth.kerberos.servicePrincipal=zkquorum/_HOST
quorum.auth.server.saslLoginContext=QuorumServer
quorum.auth.learner.saslLoginContext=QuorumLearner
`

// startMemberKerberos starts a KDC and an ensemble of three members, whose tickets have the longest life.
func startMemberKerberos(t *testing.T) *memberKerberos {
	t.Helper()
	return startWithTickets(t, 24*time.Hour)
}

// startWithTickets starts a KDC and an ensemble whose tickets have a life of at most so much.
func startWithTickets(t *testing.T, life time.Duration) *memberKerberos {
	t.Helper()
	needs.Check(t, needs.KDC)
	w := &memberKerberos{kdc: startKDC(t), life: life}
	w.Ensemble = process.StartEnsemble(t, process.Config{
		Binary: rollcall, Size: 3, Tick: tick, Lines: strings.ReplaceAll(memberKerberosLines, "DIR", w.dir), Prepare: w.giveKeytabs,
	})
	return w
}

// hostOf returns the host in a member's server line.
func hostOf(m *process.Member) string {
	_, address, _ := strings.Cut(m.Line, "=")
	host, _, _ := strings.Cut(address, ":")
	return host
}

// giveKeytabs gives a member its principals, and a JAAS file with their keytabs.
func (w *memberKerberos) giveKeytabs(m *process.Member) {
	w.t.Helper()
	var sections string
	for section, service := range map[string]string{"QuorumServer": "zkquorum", "QuorumLearner": "learner"} {
		principal := service + "/" + hostOf(m)
		w.addService(principal, w.keytab(principal))
		w.run("kadmin.local", "-r", "EXAMPLE.COM", "modprinc", "-maxlife", fmt.Sprintf("%d seconds", int(w.life.Seconds())), principal)
		text, err := os.ReadFile(w.writeJAAS("section", section, w.keytab(principal), principal))
		if err != nil {
			w.t.Fatal(err)
		}
		sections += string(text)
	}
	jaas := w.path(fmt.Sprintf("member%d.jaas", m.ID))
	w.write(jaas, sections)
	w.appendTo(m.Config, "java.security.auth.login.config="+jaas+"\n")
}

func (w *memberKerberos) write(path, text string) {
	w.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *memberKerberos) appendTo(path, text string) {
	w.t.Helper()
	before, err := os.ReadFile(path)
	if err != nil {
		w.t.Fatal(err)
	}
	w.write(path, string(before)+text)
}

// awaitLog waits until a member's log has a text.
func (w *memberKerberos) awaitLog(ctx context.Context, m *process.Member, text string) {
	w.t.Helper()
	var log []byte
	err := process.Until(ctx, fmt.Sprintf("the log of member %d has %s", m.ID, text), func() bool {
		log, _ = os.ReadFile(m.Log)
		return strings.Contains(string(log), text)
	})
	if err != nil {
		w.t.Fatalf("%v\n%s", err, log)
	}
}

// mustWrite creates a node with a client of its own.
func (w *memberKerberos) mustWrite(ctx context.Context, path string) {
	w.t.Helper()
	var up []string
	for _, m := range w.Members {
		if m.Process.IsRunning() {
			up = append(up, m.Clients)
		}
	}
	c, err := ours.Dial(ctx, strings.Join(up, ","), ours.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(ctx)) }()
	if _, _, err := c.Create(ctx, path, nil, ours.Persistent); err != nil {
		w.t.Fatalf("create %s: %v", path, err)
	}
}

// mustAdd adds a member to the list of servers, and waits until it serves, and another one has a ticket for it.
func (w *memberKerberos) mustAdd(ctx context.Context, m *process.Member) {
	w.t.Helper()
	c, err := dialGo(ctx, seat{name: "test", hosts: []string{w.Members[0].Clients}}, sessionTimeout)
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	if err := c.AddAuth("digest", []byte("super:secret")); err != nil {
		w.t.Fatal(err)
	}
	if _, err := c.IncrementalReconfig([]string{m.Line + ":participant;" + m.Clients}, nil, -1); err != nil {
		w.t.Fatal(err)
	}
	if err := process.Until(ctx, "the new member serves", func() bool { return m.Mode() != "" }); err != nil {
		w.t.Fatal(err)
	}
	address, err := w.Members[0].HTTP()
	if err != nil {
		w.t.Fatal(err)
	}
	series := fmt.Sprintf("\nrollcall_ticket_valid_seconds{member=\"%d\"} ", m.ID)
	err = process.Until(ctx, "a ticket for the new member", func() bool {
		reply, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			return false
		}
		defer reply.Body.Close()
		text, _ := io.ReadAll(reply.Body)
		_, value, found := strings.Cut(string(text), series)
		return found && !strings.HasPrefix(value, "0\n")
	})
	if err != nil {
		w.t.Error(err)
	}
}

// addWithKeytabs starts a member that the others do not know.
func (w *memberKerberos) addWithKeytabs(ctx context.Context, id int) *process.Member {
	w.t.Helper()
	m := w.NewMember(id)
	w.Add(m) // without keytabs it does not start: its file has no JAAS file
	m.Process.ExpectEnd()
	if _, err := m.Process.ExitStatus(ctx); err != nil {
		w.t.Fatal(err)
	}
	w.giveKeytabs(m)
	w.Start(m)
	return m
}

// mustChangeList adds members to the list of servers and removes others, in one change of an operator.
func (w *memberKerberos) mustChangeList(ctx context.Context, joining []*process.Member, leaving string) {
	w.t.Helper()
	var list struct {
		Version string `json:"version"`
	}
	w.requestMembers(ctx, http.MethodGet, nil, &list)
	var lines []string
	for _, m := range joining {
		lines = append(lines, m.Line+":participant;"+m.Clients)
	}
	change := map[string]string{"joining": strings.Join(lines, ","), "leaving": leaving, "version": list.Version}
	w.requestMembers(ctx, http.MethodPost, change, &list)
}

// requestMembers makes a request to /v1/members of the first member, and decodes the reply.
func (w *memberKerberos) requestMembers(ctx context.Context, method string, body, reply any) {
	w.t.Helper()
	address, err := w.Members[0].HTTP()
	if err != nil {
		w.t.Fatal(err)
	}
	text, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://"+address+"/v1/members", bytes.NewReader(text))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "digest super:secret")
	r.Header.Set("Content-Type", "application/json")
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer got.Body.Close()
	text, err = io.ReadAll(got.Body)
	if err == nil && got.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s", method, got.Status, text)
	}
	if err == nil {
		err = json.Unmarshal(text, reply)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// checkRecover checks that rollcall recover of a stopped member gets the replies of the others, for which it needs
// tickets. It changes nothing, because it gets no confirmation.
func (w *memberKerberos) checkRecover(ctx context.Context, m *process.Member) {
	w.t.Helper()
	out, err := exec.CommandContext(ctx, rollcall, "recover", m.Config).CombinedOutput()
	if strings.Count(string(out), "data up to index") != len(w.Members) {
		w.t.Errorf("recover: %v\n%s", err, out)
	}
}

// Members with ZooKeeper's keys for Kerberos form an ensemble. It elects leaders and serves while the KDC is dead. A
// member that starts then cannot join, logs the reason, and joins when the KDC is back.
func TestMembersByKerberos(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	w := startMemberKerberos(t)
	w.awaitLog(ctx, w.Members[0], "protection=Kerberos")
	w.mustWrite(ctx, "/a")

	first := w.Settle()
	first.Process.Kill()
	w.Settle()
	w.mustWrite(ctx, "/b")
	w.checkRecover(ctx, first)
	w.Start(first)
	w.Settle()
	w.Joined()
	w.mustWrite(ctx, "/c")

	w.kdc.process.Kill()
	w.mustWrite(ctx, "/d")
	second := w.Settle()
	second.Process.Kill()
	w.Settle()
	w.mustWrite(ctx, "/e")

	w.Start(second)
	w.awaitLog(ctx, second, "a Kerberos ticket for a member is missing")
	w.awaitLog(ctx, second, "connection refused")
	if mode := second.Mode(); mode != "" {
		t.Errorf("member %d serves as %s without a KDC", second.ID, mode)
	}
	w.mustWrite(ctx, "/f")
	w.kdc.start()
	w.awaitLog(ctx, second, "Kerberos tickets for members were got again")
	w.Settle()
	w.Joined()
	w.mustWrite(ctx, "/g")
	fmt.Println("client scenario: members by Kerberos ok")
}

// While the KDC hangs, and tickets are due, members elect a leader and serve. Their logs say that tickets cannot be renewed, and that they
// are again.
func TestMembersByKerberosWhileTheKDCHangs(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	w := startWithTickets(t, time.Minute) // so that they are replaced every 15 s
	if err := w.kdc.process.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, m := range w.Members {
		w.awaitLog(ctx, m, "Kerberos tickets for members cannot be renewed")
		w.awaitLog(ctx, m, "no reply within 3s")
	}
	w.Settle().Process.Kill()
	w.Settle()
	w.mustWrite(ctx, "/a")
	if err := w.kdc.process.Continue(); err != nil {
		t.Fatal(err)
	}
	for _, m := range w.Members {
		if m.Process.IsRunning() {
			w.awaitLog(ctx, m, "Kerberos tickets for members were got again")
		}
	}
	w.mustWrite(ctx, "/b")
	fmt.Println("client scenario: members by Kerberos while the KDC hangs ok")
}

// A process with a principal of the realm that is not a member's, and one with a secret, take no part. The first one does once it is in the
// list of servers. Strangers are rejected on both ports, whatever they send, and the members serve on.
func TestStrangersToMembersByKerberos(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	w := startMemberKerberos(t)
	w.mustWrite(ctx, "/a")

	stranger := w.addWithKeytabs(ctx, 4)
	refused := func(text string) {
		t.Helper()
		var logs string
		err := process.Until(ctx, "a member has logged "+text, func() bool {
			logs = ""
			for _, m := range w.Members[:3] {
				log, _ := os.ReadFile(m.Log)
				logs += string(log)
			}
			return strings.Contains(logs, text)
		})
		if err != nil {
			t.Errorf("%v\n%s", err, logs)
		}
	}
	refused(fmt.Sprintf("member 4 is not in the server list, and learner/%s@EXAMPLE.COM says it is that member", hostOf(stranger)))
	w.mustAdd(ctx, stranger)
	stranger.Process.Kill()

	secret := w.path("secret")
	w.write(secret, "a secret that the others lack\n")
	config, err := os.ReadFile(stranger.Config)
	if err != nil {
		t.Fatal(err)
	}
	plain := ""
	for line := range strings.Lines(string(config)) {
		if !strings.HasPrefix(line, "quorum.auth.") && !strings.HasPrefix(line, "java.security") {
			plain += line
		}
	}
	w.write(stranger.Config, plain+"ensembleSecretFile="+secret+"\n")
	w.Start(stranger)
	refused(`the dialer offers [\"rollcall-secret-1\"], members prove themselves here by Kerberos`)
	stranger.Process.Kill()

	for _, address := range memberPorts(w.Members[0]) {
		w.attack(address)
	}
	refused("bytes has no frame of GSSAPI") // one line for each kind of fault
	w.mustWrite(ctx, "/b")
	fmt.Println("client scenario: strangers to members by Kerberos ok")
}

// An operator replaces most voters at once by members for which there are no tickets yet. The change is made, the new
// ensemble serves, and the connections of the removed members close, although their processes continue.
func TestMostMembersByKerberosAreReplaced(t *testing.T) {
	needs.Check(t, needs.Usual)
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), scenarioLimit)
	defer cancel()
	w := startMemberKerberos(t)
	w.mustWrite(ctx, "/a")
	four, five := w.addWithKeytabs(ctx, 4), w.addWithKeytabs(ctx, 5)
	w.mustChangeList(ctx, []*process.Member{four, five}, "2,3")
	w.Members = []*process.Member{w.Members[0], four, five}
	w.Settle()
	w.Joined()
	for _, removed := range []string{"2", "3"} {
		w.awaitLog(ctx, w.Members[0], "member "+removed+" has left the ensemble")
	}
	w.mustWrite(ctx, "/b")
	w.Settle().Process.Kill()
	w.Settle()
	w.mustWrite(ctx, "/c")
	fmt.Println("client scenario: most members by Kerberos are replaced ok")
}

// memberPorts returns both addresses on which a member listens for members.
func memberPorts(m *process.Member) []string {
	_, line, _ := strings.Cut(m.Line, "=")
	parts := strings.Split(line, ":")
	return []string{net.JoinHostPort(parts[0], parts[1]), net.JoinHostPort(parts[0], parts[2])}
}

// attack sends tokens to a port that are cut short, huge, or no tokens, many at once. Nothing may come back.
func (w *memberKerberos) attack(address string) {
	w.t.Helper()
	var all sync.WaitGroup
	for i := range 60 {
		token := []string{"\x00\x03abc", "\xff\xff" + strings.Repeat("x", 65_535), "\xff\xffabc", "", "\x00\x00"}[i%5]
		all.Go(func() {
			d := tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: &tls.Config{NextProtos: []string{"rollcall-kerberos-1"}, InsecureSkipVerify: true}}
			conn, err := d.Dial("tcp", address)
			if err != nil {
				return // so many are closed at once
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			_, _ = conn.Write([]byte(token))
			if len(token) < 2 || token == "\xff\xffabc" {
				_ = conn.(*tls.Conn).CloseWrite()
			}
			if answer, _ := io.ReadAll(conn); len(answer) > 0 {
				w.t.Errorf("%s answers a token of %d bytes with %q", address, len(token), answer)
			}
		})
	}
	all.Wait()
}
