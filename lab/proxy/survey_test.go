package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"rollcall/client"
	"rollcall/rollcalltest"
	"rollcall/zk/jute"
)

type dialer = func(context.Context) (*client.Client, error)

// surveyOf surveys a script on so many servers, in virtual time.
func surveyOf(
	t *testing.T, members int, cfg Config, run func(ctx context.Context, dial dialer) error,
) (result Result, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		network := new(pipes)
		cfg.Program, cfg.Listen = script{network, run}, network.Listen
		if cfg.Ensemble == nil {
			cfg.Ensemble = &memoryEnsemble{members: members}
		}
		result, err = Survey(t.Context(), cfg)
	})
	return result, err
}

// broke returns the points at which the program broke.
func broke(r Result) (points []string) {
	for _, run := range r.Broken() {
		points = append(points, run.Point.String())
	}
	return points
}

// retry calls do until it succeeds or fails for another reason than a connection. It opens a new session if the old one
// has ended.
func retry(ctx context.Context, dial dialer, c **client.Client, do func(*client.Client) error) error {
	for {
		var err error
		if *c == nil {
			*c, err = dial(ctx)
		}
		if err == nil {
			err = do(*c)
		}
		var failed *client.Error
		var code jute.Code
		switch {
		case err == nil || errors.As(err, &failed) && errors.As(err, &code) && code != jute.SessionExpired && code != jute.ConnectionLoss:
			return err
		case *c != nil && (*c).State().State == client.Expired:
			(*c).Abandon()
			*c = nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// counter adds to a counter three times, and checks the sum. If careful, it writes its sum with the version that it has
// read, and reads the data after a conflict.
func counter(ctx context.Context, dial dialer, careful bool) error {
	var c *client.Client
	defer func() {
		if c != nil {
			c.Abandon()
		}
	}()
	err := retry(ctx, dial, &c, func(c *client.Client) error {
		_, _, err := c.Create(ctx, "/counter", []byte("0"), client.Persistent)
		if errors.Is(err, client.ErrNodeExists) {
			return nil
		}
		return err
	})
	for want := 1; want <= 3 && err == nil; want++ {
		err = retry(ctx, dial, &c, func(c *client.Client) error { return add(ctx, c, want, careful) })
	}
	if err != nil {
		return err
	}
	var data []byte
	err = retry(ctx, dial, &c, func(c *client.Client) (err error) {
		data, _, err = c.Get(ctx, "/counter")
		return err
	})
	if err == nil && string(data) != "3" {
		return fmt.Errorf("the counter is %s", data)
	}
	return err
}

func add(ctx context.Context, c *client.Client, want int, careful bool) error {
	data, stat, err := c.Get(ctx, "/counter")
	if err != nil {
		return err
	}
	n, _ := strconv.Atoi(string(data))
	if careful && n == want {
		return nil // an earlier try has done it
	}
	_, err = c.Set(ctx, "/counter", []byte(strconv.Itoa(n+1)), stat.Version)
	return err
}

// A program that counts a lost reply as a lost write is found at each of its writes, by the faults that lose replies, and
// at no other request.
func TestFindsTheWriteThatHappensTwice(t *testing.T) {
	result, err := surveyOf(t, 1, Config{}, func(ctx context.Context, dial dialer) error { return counter(ctx, dial, false) })
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for n := 1; n <= 3; n++ {
		want = append(want, fmt.Sprintf("s1 setData /counter #%d:after", n), fmt.Sprintf("s1 setData /counter #%d:late", n))
	}
	if got := broke(result); !slices.Equal(got, want) {
		t.Errorf("it broke at %q, want %q", got, want)
	}
	for _, run := range result.Broken() {
		if run.Again != Broke || !strings.Contains(strings.Join(run.Output, "\n"), "the counter is 4") || len(run.Next) == 0 {
			t.Errorf("%s: repeated %q, output %q, following %v", run.Point, run.Again, run.Output, run.Next)
		}
	}
}

// A program that reads before it writes again survives each fault at each request. Every fault happens: nothing is
// unreached or undone.
func TestCarefulProgramSurvives(t *testing.T) {
	// connect, create, three times getData and setData, getData. The connect cannot expire or pause.
	const requests = 9
	for _, tt := range []struct {
		members int
		faults  []Fault
		points  int
	}{
		{1, []Fault{Before, After, Expire, Late, Pause}, 5*requests - 2},
		{3, []Fault{Move}, requests},
	} {
		result, err := surveyOf(t, tt.members, Config{Faults: tt.faults}, func(ctx context.Context, dial dialer) error {
			return counter(ctx, dial, true)
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(result.Recorded) != requests || result.Counts[Survived] != tt.points || len(result.Runs) != tt.points {
			for _, run := range result.Runs {
				if run.Outcome != Survived {
					t.Error(run.Line())
				}
			}
			t.Errorf("%d requests, it survived %d of %d, want %d and %d",
				len(result.Recorded), result.Counts[Survived], len(result.Runs), requests, tt.points)
		}
	}
}

// A program that believes in its lock after a pause is found by the faults that end its session, between the lock and
// the write.
func TestFindsTheLockThatIsLost(t *testing.T) {
	result, err := surveyOf(t, 1, Config{Faults: []Fault{Expire, Pause}}, func(ctx context.Context, dial dialer) error {
		c, err := dial(ctx)
		if err != nil {
			return err
		}
		defer func() { c.Abandon() }()
		if _, _, err := c.Create(ctx, "/lock", nil, client.Ephemeral); err != nil {
			return err
		}
		if _, _, err := c.Get(ctx, "/"); err != nil { // the work under the lock begins
			c.Abandon()
			if c, err = dial(ctx); err != nil {
				return err
			}
		}
		switch _, held, err := c.Exists(ctx, "/lock"); {
		case err != nil:
			return err
		case !held:
			return errors.New("worked without the lock")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"s1 create2 /lock #1:expire", "s1 create2 /lock #1:pause", "s1 getData / #1:expire", "s1 getData / #1:pause",
		"s1 exists /lock #1:expire",
	}
	if got := broke(result); !slices.Equal(got, want) {
		t.Errorf("it broke at %q, want %q", got, want)
	}
}

// What each fault does to a request: whether it is carried out, and what becomes of the session.
func TestWhatFaultsDo(t *testing.T) {
	for _, tt := range []struct {
		fault       Fault
		made, lives bool
		least, most time.Duration // of the run
		fail        bool
		server      int // that serves the next connection
	}{
		{Before, false, true, 0, sessionTimeout / 2, true, 1},
		{After, true, true, 0, sessionTimeout / 2, true, 1},
		{Expire, false, false, 0, sessionTimeout / 2, true, 1},
		{Move, true, true, 0, sessionTimeout / 2, false, 2},
		{Late, true, true, sessionTimeout / 2, 2 * sessionTimeout, true, 1},
		{Pause, true, false, sessionTimeout, 2 * sessionTimeout, false, 1},
	} {
		t.Run(string(tt.fault), func(t *testing.T) {
			var made, lives, fails bool
			server := 0
			ensemble := &memoryEnsemble{members: tt.server, onRequest: func(r rollcalltest.Request) { server = r.Server }}
			at := Point{Key{1, "create2", "/a", 1}, tt.fault}
			result, err := surveyOf(t, 0, Config{At: &at, Ensemble: ensemble}, func(ctx context.Context, dial dialer) error {
				c, err := dial(ctx)
				if err != nil {
					return err
				}
				defer func() { c.Abandon() }()
				id, _ := c.Session()
				_, _, err = c.Create(ctx, "/a", nil, client.Persistent)
				fails = err != nil
				for c.State().State != client.Expired { // until a request passes
					if _, made, err = c.Exists(ctx, "/a"); err == nil {
						break
					}
					time.Sleep(time.Millisecond)
				}
				if lives = c.State().State != client.Expired; !lives {
					c.Abandon()
					if c, err = dial(ctx); err != nil {
						return err
					}
					_, made, err = c.Exists(ctx, "/a")
				}
				if now, _ := c.Session(); lives != (now == id) {
					t.Errorf("the session %v became %v", id, now)
				}
				return err
			})
			if err != nil || len(result.Runs) != 1 || result.Runs[0].Outcome != Survived {
				t.Fatalf("%v, %v", err, result.Runs)
			}
			took := fromMillis(result.Runs[0].TookMS)
			if made != tt.made || lives != tt.lives || fails != tt.fail || took < tt.least || took > tt.most || server != tt.server {
				t.Errorf("carried out %t, session lives %t, request fails %t, took %v, server %d; want %t, %t, %t, %v to %v, %d",
					made, lives, fails, took, server, tt.made, tt.lives, tt.fail, tt.least, tt.most, tt.server)
			}
		})
	}
}

// A run is ended at its limit and counts as hung. The report distinguishes a request that does not come, a program that
// fails without the fault, and one that fails before it.
func TestOutcomes(t *testing.T) {
	open := func(ctx context.Context, dial dialer) (*client.Client, error) {
		c, err := dial(ctx)
		if err == nil {
			_, _, err = c.Get(ctx, "/")
		}
		return c, err
	}
	t.Run("hung", func(t *testing.T) {
		result, err := surveyOf(t, 1, Config{Faults: []Fault{Before}}, func(ctx context.Context, dial dialer) error {
			c, err := open(ctx, dial)
			if c != nil {
				defer c.Abandon()
			}
			if err != nil {
				<-ctx.Done() // it waits for something that does not come
			}
			return err
		})
		if err != nil || result.Counts[Hung] != 1 || result.Counts[Survived] != 1 {
			t.Errorf("%v, %v", result.Counts, err)
		}
		if got := broke(result); !slices.Equal(got, []string{"s1 getData / #1:before"}) {
			t.Errorf("it broke at %q", got)
		}
	})
	t.Run("other", func(t *testing.T) {
		run := 0
		result, err := surveyOf(t, 1, Config{Faults: []Fault{Before}}, func(ctx context.Context, dial dialer) error {
			if run++; run == 4 {
				return errors.New("out of luck") // before its first request
			}
			c, err := open(ctx, dial)
			if c != nil {
				defer c.Abandon()
			}
			if run <= 2 && err == nil {
				_, _, err = c.Exists(ctx, "/rare")
			}
			return err
		})
		if want := map[Outcome]int{Survived: 1, Unrelated: 1, NotReached: 1}; err != nil || fmt.Sprint(result.Counts) != fmt.Sprint(want) {
			t.Errorf("%v, %v, want %v", result.Counts, err, want)
		}
	})
	for name, tt := range map[string]struct {
		err  error
		dial bool
		want string
	}{
		"fails":      {errors.New("no luck"), true, "run 1 of the program without a fault: no luck\nthe script failed: no luck"},
		"no request": {nil, false, "the program succeeded without a request: it must connect to the address in the environment variable ROLLCALL_CONNECT"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := surveyOf(t, 1, Config{}, func(ctx context.Context, dial dialer) error {
				if tt.dial {
					c, err := open(ctx, dial)
					if err != nil {
						return err
					}
					c.Abandon()
				}
				return tt.err
			})
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
}

// Sessions that are opened in another order than in the recordings do not hide a request.
func TestSessionsInAnotherOrder(t *testing.T) {
	run := 0
	result, err := surveyOf(t, 1, Config{Faults: []Fault{Move, After}}, func(ctx context.Context, dial dialer) error {
		run++
		paths := []string{"/a", "/b"}
		if run > 2 && run%2 == 0 {
			slices.Reverse(paths)
		}
		for _, path := range paths {
			c, err := dial(ctx)
			if err != nil {
				return err
			}
			defer c.Abandon()
			if _, _, err := c.Create(ctx, path, nil, client.Ephemeral); err != nil && !client.MayHaveHappened(err) {
				return err
			}
		}
		return nil
	})
	if err != nil || result.Counts[Survived] != len(result.Runs) || len(result.Runs) != 4 {
		t.Errorf("%v, %v", result.Counts, err)
	}
	if result.Skipped != 4 {
		t.Errorf("%d points were skipped, want 4: one server is not enough to move", result.Skipped)
	}
}

// With more points than the limit, the seed draws some of them, and the others are counted.
func TestLimitDraws(t *testing.T) {
	drawn := func(seed uint64) (points []string) {
		result, err := surveyOf(t, 1, Config{Limit: 5, Seed: seed, Faults: []Fault{Before, After}},
			func(ctx context.Context, dial dialer) error { return counter(ctx, dial, true) })
		if err != nil || len(result.Runs) != 5 || result.LeftOut != 13 || result.Seed != seed {
			t.Fatalf("%d runs, %d left out, seed %d, %v", len(result.Runs), result.LeftOut, result.Seed, err)
		}
		for _, run := range result.Runs {
			points = append(points, run.Point.String())
		}
		return points
	}
	first := drawn(1)
	if again := drawn(1); !slices.Equal(first, again) {
		t.Errorf("seed 1 drew %q, and then %q", first, again)
	}
	if other := drawn(2); slices.Equal(first, other) {
		t.Errorf("seeds 1 and 2 both drew %q", first)
	}
}

// A run with a fault may take three times as long as the longest run without one, and five session timeouts, or 5 s if these are
// shorter.
func TestLimitOfARun(t *testing.T) {
	for _, tt := range []struct{ run, timeout, want time.Duration }{
		{2 * time.Second, 10 * time.Second, 56 * time.Second},
		{2 * time.Second, 100 * time.Millisecond, 11 * time.Second},
		{0, 0, 5 * time.Second},
	} {
		s := &surveyRun{timeout: tt.timeout, result: Result{RunMS: tt.run.Milliseconds()}}
		if got := s.timeLimit(); got != tt.want {
			t.Errorf("a run of %v with a timeout of %v: limit %v, want %v", tt.run, tt.timeout, got, tt.want)
		}
	}
}
