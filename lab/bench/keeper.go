package bench

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

// keeperRequest is a request to a process that holds sessions. Each gets a keeperReply.
type keeperRequest struct {
	Do     string // open, expect, measure, count or close
	Part   sessionShare
	Writes writeSchedule
	Yes    bool
}

// keeperReply is the reply to a keeperRequest. Err is the text of an error, or "".
type keeperReply struct {
	Err    string
	Held   sessionCounts
	Closed int
}

// keeperProcess is a holder in another process, which ends at the end of its input.
type keeperProcess struct {
	cmd   *exec.Cmd
	input io.WriteCloser

	mu  sync.Mutex // one request at a time
	enc *json.Encoder
	dec *json.Decoder
}

// startKeeperProcess starts a process that calls ServeKeeper. The end of ctx kills it.
func startKeeperProcess(ctx context.Context, command []string) (*keeperProcess, error) {
	w := &keeperProcess{cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	w.cmd.Stderr = os.Stderr
	in, err := w.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a process for more sessions: %w", err)
	}
	out, err := w.cmd.StdoutPipe()
	if err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start a process for more sessions: %w", errors.Join(err, in.Close()))
	}
	w.input, w.enc, w.dec = in, json.NewEncoder(in), json.NewDecoder(out)
	return w, nil
}

func (w *keeperProcess) pid() int { return w.cmd.Process.Pid }

// sendRequest sends a request and waits for the reply.
func (w *keeperProcess) sendRequest(o keeperRequest) (keeperReply, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var a keeperReply
	err := w.enc.Encode(o)
	if err == nil {
		err = w.dec.Decode(&a)
	}
	if err != nil {
		return a, fmt.Errorf("process %d for more sessions: %s: %w", w.pid(), o.Do, err)
	}
	if a.Err != "" {
		return a, errors.New(a.Err)
	}
	return a, nil
}

func (w *keeperProcess) openSessions(_ context.Context, p sessionShare) error {
	_, err := w.sendRequest(keeperRequest{Do: "open", Part: p})
	return err
}

func (w *keeperProcess) setMeasuring(yes bool) error {
	_, err := w.sendRequest(keeperRequest{Do: "measure", Yes: yes})
	return err
}

func (w *keeperProcess) expectWrites(s writeSchedule) error {
	_, err := w.sendRequest(keeperRequest{Do: "expect", Writes: s})
	return err
}

func (w *keeperProcess) fetchCounts() (sessionCounts, error) {
	a, err := w.sendRequest(keeperRequest{Do: "count"})
	return a.Held, err
}

func (w *keeperProcess) closeSessions(context.Context) (int, error) {
	a, err := w.sendRequest(keeperRequest{Do: "close"})
	return a.Closed, err
}

func (w *keeperProcess) abandonSessions() {
	_ = w.input.Close() // this makes the process end
	_ = w.cmd.Wait()    // its exit status does not matter
}

// ServeKeeper is the body of a process that holds a share of a run's sessions. It reads requests from in until
// its end, and writes replies to out. Its connections are not encrypted if config is nil.
func ServeKeeper(ctx context.Context, config *tls.Config, in io.Reader, out io.Writer) error {
	h := newLocalHolder(&caseRun{ctx: ctx, target: Target{TLS: config}, reportLine: func(string) {}})
	defer h.abandonSessions()
	dec, enc := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var o keeperRequest
		if err := dec.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("bench: read a request: %w", err)
		}
		if err := enc.Encode(h.carryOut(ctx, o)); err != nil {
			return fmt.Errorf("bench: send a reply: %w", err)
		}
	}
}

func (h *localHolder) carryOut(ctx context.Context, o keeperRequest) (a keeperReply) {
	var err error
	switch o.Do {
	case "open":
		h.run.params.Timeout, h.run.params.Sources = o.Part.Timeout, o.Part.Sources
		err = h.openSessions(ctx, o.Part)
	case "expect":
		err = h.expectWrites(o.Writes)
	case "measure":
		err = h.setMeasuring(o.Yes)
	case "count":
		a.Held, err = h.fetchCounts()
	case "close":
		ctx, stop := context.WithTimeout(ctx, closeTimeout)
		defer stop()
		a.Closed, err = h.closeSessions(ctx)
	default:
		err = fmt.Errorf("bench: unknown request %q", o.Do)
	}
	if err != nil {
		a.Err = err.Error()
	}
	return a
}
