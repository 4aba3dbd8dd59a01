package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

// order is a request of a bench to a process that holds sessions for it. Each gets an answer.
type order struct {
	Do   string // open, measure, count or close
	Part part
	Yes  bool
}

// answer is the answer to an order. Err is the text of an error, or "".
type answer struct {
	Err    string
	Held   held
	Closed int
}

// keeper is a holder in another process. That process ends when its input ends.
type keeper struct {
	cmd *exec.Cmd
	in  io.WriteCloser

	mu  sync.Mutex // one order at a time
	enc *json.Encoder
	dec *json.Decoder
}

// startKeeper starts a process that calls ServeKeeper. The process is killed when ctx ends.
func startKeeper(ctx context.Context, command []string) (*keeper, error) {
	w := &keeper{cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
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
	w.in, w.enc, w.dec = in, json.NewEncoder(in), json.NewDecoder(out)
	return w, nil
}

func (w *keeper) pid() int { return w.cmd.Process.Pid }

// ask sends an order and waits for the answer.
func (w *keeper) ask(o order) (answer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var a answer
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

func (w *keeper) open(_ context.Context, p part) error {
	_, err := w.ask(order{Do: "open", Part: p})
	return err
}

func (w *keeper) measure(yes bool) error {
	_, err := w.ask(order{Do: "measure", Yes: yes})
	return err
}

func (w *keeper) count() (held, error) {
	a, err := w.ask(order{Do: "count"})
	return a.Held, err
}

func (w *keeper) close(context.Context) (int, error) {
	a, err := w.ask(order{Do: "close"})
	return a.Closed, err
}

func (w *keeper) abandon() {
	_ = w.in.Close() // this makes the process end
	_ = w.cmd.Wait() // its exit status does not matter
}

// ServeKeeper is the body of a process that Target.Keeper starts. It holds sessions as the orders
// on in say, and answers on out, until in ends. It connects with dial, or over TCP if that is nil.
func ServeKeeper(ctx context.Context, dial Dial, in io.Reader, out io.Writer) error {
	h := newHolding(&run{ctx: ctx, target: Target{Dial: dial}, tell: func(string) {}})
	defer h.abandon()
	dec, enc := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var o order
		if err := dec.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("bench: read an order: %w", err)
		}
		if err := enc.Encode(h.obey(ctx, o)); err != nil {
			return fmt.Errorf("bench: answer an order: %w", err)
		}
	}
}

// obey carries out an order and returns the answer.
func (h *holding) obey(ctx context.Context, o order) (a answer) {
	var err error
	switch o.Do {
	case "open":
		h.r.p.Timeout = o.Part.Timeout
		err = h.open(ctx, o.Part)
	case "measure":
		err = h.measure(o.Yes)
	case "count":
		a.Held, err = h.count()
	case "close":
		ctx, stop := context.WithTimeout(ctx, closeTime)
		defer stop()
		a.Closed, err = h.close(ctx)
	default:
		err = fmt.Errorf("bench: unknown order %q", o.Do)
	}
	if err != nil {
		a.Err = err.Error()
	}
	return a
}
