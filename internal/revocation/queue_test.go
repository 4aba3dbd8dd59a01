package revocation

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ocsp"
)

// fakeTransport is a responder without a network, for virtual time. It counts the queries under way.
type fakeTransport struct {
	r       *responder
	hold    func(ctx context.Context, query *ocsp.Request) error // the wait before the answer
	mu      sync.Mutex
	current int
	most    int
	order   []string // serial numbers, as the queries came
}

func (f *fakeTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	text, _ := io.ReadAll(req.Body)
	query, err := ocsp.ParseRequest(text)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.current++
	f.most = max(f.most, f.current)
	f.order = append(f.order, query.SerialNumber.String())
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.current--
		f.mu.Unlock()
	}()
	if err := f.hold(req.Context(), query); err != nil {
		return nil, err
	}
	body := f.r.sign(ocsp.Response{Status: ocsp.Good, SerialNumber: query.SerialNumber})
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(body)), Request: req}, nil
}

// seen returns the number of queries under way, the most so far, and their serial numbers.
func (f *fakeTransport) seen() (current, most int, order []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.current, f.most, slices.Clone(f.order)
}

// silent answers nothing until the query ends.
func silent(ctx context.Context, _ *ocsp.Request) error {
	<-ctx.Done()
	return ctx.Err()
}

// issueMany returns certificates that name one responder.
func (r *responder) issueMany(n int) (certs []*x509.Certificate) {
	for range n {
		certs = append(certs, r.issue("http://responder.example/"))
	}
	return certs
}

// At most maxQueriesEach are under way to one responder. Those above it wait for their turn, in the order in which they
// came, and then succeed.
func TestQueriesWaitForTheirTurn(t *testing.T) {
	r := newResponder(t)
	certs := r.issueMany(maxQueriesEach + 5)
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f := &fakeTransport{r: r, hold: func(ctx context.Context, _ *ocsp.Request) error {
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		c := New(time.Now, f)
		results := make(chan error, len(certs))
		for _, cert := range certs {
			go func() { results <- c.Check(t.Context(), []*x509.Certificate{cert, r.issuer}, nil) }()
			synctest.Wait()
		}
		if current, _, _ := f.seen(); current != maxQueriesEach || len(results) != 0 {
			t.Fatalf("%d under way and %d ended, want %d and none", current, len(results), maxQueriesEach)
		}
		time.Sleep(waitTimeout - time.Millisecond)
		close(release)
		for range certs {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		var want []string
		for _, cert := range certs {
			want = append(want, cert.SerialNumber.String())
		}
		slices.Sort(want[maxQueriesEach:]) // those that wait begin together
		_, most, order := f.seen()
		slices.Sort(order[maxQueriesEach:])
		if most != maxQueriesEach || !slices.Equal(order, want) {
			t.Errorf("up to %d under way, in the order %v, want %v", most, order, want)
		}
	})
}

// A query waits no longer than waitTimeout, and takes no longer than queryTimeout after that. Nothing stands for the next ones if it has
// not been made. A check ends with its context, and its query goes on for others.
func TestWaitsEnd(t *testing.T) {
	r := newResponder(t)
	certs := r.issueMany(maxQueriesEach + 2)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		f := &fakeTransport{r: r, hold: func(ctx context.Context, query *ocsp.Request) error {
			if time.Since(began) < waitTimeout+queryTimeout {
				return silent(ctx, query)
			}
			return nil
		}}
		c := New(time.Now, f)
		check := func(ctx context.Context, cert *x509.Certificate) (took time.Duration, err error) {
			at := time.Now()
			err = c.Check(ctx, []*x509.Certificate{cert, r.issuer}, nil)
			return time.Since(at), err
		}
		for _, cert := range certs[:maxQueriesEach] {
			go func() {
				if took, err := check(t.Context(), cert); err == nil || took != queryTimeout {
					t.Errorf("a silent responder: %v after %v", err, took)
				}
			}()
		}
		synctest.Wait()
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if took, err := check(impatient, certs[maxQueriesEach]); err == nil || !strings.Contains(err.Error(), "deadline") || took != time.Second {
			t.Errorf("a handshake of a second: %v after %v", err, took)
		}
		// The places become free when the wait of this one ends.
		if took, err := check(t.Context(), certs[maxQueriesEach]); err == nil || took > waitTimeout+queryTimeout {
			t.Errorf("behind silent ones: %v after %v", err, took)
		}
		time.Sleep(queryTimeout)
		if took, err := check(t.Context(), certs[maxQueriesEach+1]); err != nil || took != 0 {
			t.Errorf("after them: %v after %v", err, took)
		}
		time.Sleep(retryAfter)
		if _, err := check(t.Context(), certs[maxQueriesEach]); err != nil {
			t.Errorf("the one that waited, again: %v", err)
		}
	})
}

// While all places are taken for longer than waitTimeout, or all of one responder, the error says so, and the next check of the same
// certificate waits anew.
func TestWaitTimeout(t *testing.T) {
	r := newResponder(t)
	cert := r.issueMany(1)[0]
	for text, isOneFull := range map[string]bool{
		"128 queries to responders are under way":                       false,
		`32 queries to the responder "responder.example" are under way`: true,
	} {
		synctest.Test(t, func(t *testing.T) {
			c := New(time.Now, &fakeTransport{r: r, hold: func(context.Context, *ocsp.Request) error { return nil }})
			places := c.queries
			if isOneFull {
				c.mu.Lock()
				s, err := c.takeShare(cert)
				c.mu.Unlock()
				if err != nil {
					t.Fatal(err)
				}
				places = s.queries
			}
			for range cap(places) {
				places <- struct{}{}
			}
			chain := []*x509.Certificate{cert, r.issuer}
			for range 2 {
				at := time.Now()
				err := c.Check(t.Context(), chain, nil)
				if took := time.Since(at); err == nil || !strings.Contains(err.Error(), text) || took != waitTimeout {
					t.Errorf("%v after %v, want %q", err, took, text)
				}
			}
			<-places
			if err := c.Check(t.Context(), chain, nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// No more than maxWaitingEach wait for one responder, and no more than maxWaiting for all. One above is rejected at once. Two checks of
// one certificate share a query.
func TestWaitingQueriesAreBounded(t *testing.T) {
	r := newResponder(t)
	template := r.issueMany(1)[0]
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTransport{r: r, hold: silent}
		c := New(time.Now, f)
		numbered := func(responder, i int) *x509.Certificate { // another certificate for the Checker, without the time to make one
			return like(template, func(cert *x509.Certificate) {
				cert.Raw = append(slices.Clip(cert.Raw), byte(responder), byte(i), byte(i>>8))
				cert.OCSPServer = []string{fmt.Sprintf("http://Responder%d.example/%d", responder, i)}
			})
		}
		wantRejected := func(cert *x509.Certificate, text string) {
			t.Helper()
			err := c.Check(t.Context(), []*x509.Certificate{cert, r.issuer}, nil)
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%v, want %q", err, text)
			}
		}
		for responder := range shares {
			for i := range maxQueriesEach + maxWaitingEach {
				c.answerOf(numbered(responder, i), r.issuer)
				c.answerOf(numbered(responder, i), r.issuer)
			}
			synctest.Wait()
			if current, _, _ := f.seen(); current != (responder+1)*maxQueriesEach {
				t.Errorf("%d queries are under way to %d responders", current, responder+1)
			}
			if responder == 0 {
				wantRejected(numbered(0, maxQueriesEach+maxWaitingEach), `256 queries wait for the responder "responder0.example"; try again`)
			}
		}
		wantRejected(numbered(shares, 0), "1024 queries wait for responders; try again")
		synctest.Wait()
		if _, most, _ := f.seen(); most != maxQueries {
			t.Errorf("%d under way", most)
		}
		time.Sleep(waitTimeout + 2*queryTimeout)
		synctest.Wait()
		if len(c.waiting) != 0 || len(c.queries) != 0 || len(c.responders) != 0 {
			t.Errorf("%d places are taken, and %d of those that wait; %d responders are left", len(c.queries), len(c.waiting), len(c.responders))
		}
	})
}

// While one responder is silent, however many certificates name it, those of another one are known at once.
func TestSilentResponderLeavesPlaces(t *testing.T) {
	r := newResponder(t)
	mute := r.issue("http://silent.example/")
	other := r.issue("http://responder.example/")
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTransport{r: r, hold: func(ctx context.Context, query *ocsp.Request) error {
			if query.SerialNumber.Cmp(mute.SerialNumber) == 0 {
				return silent(ctx, query)
			}
			return nil
		}}
		c := New(time.Now, f)
		ofSilent := func(i int) *x509.Certificate {
			return like(mute, func(cert *x509.Certificate) { cert.Raw = append(slices.Clip(cert.Raw), byte(i), byte(i>>8)) })
		}
		for i := range maxQueries + maxWaiting {
			c.answerOf(ofSilent(i), r.issuer)
		}
		synctest.Wait()
		began := time.Now()
		if err := c.Check(t.Context(), []*x509.Certificate{other, r.issuer}, nil); err != nil || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		time.Sleep(waitTimeout + queryTimeout)
	})
}

// All queries of a chain together take no longer than a handshake.
func TestChainsTakeNoLonger(t *testing.T) {
	r := newResponder(t)
	chain := r.issueMany(1)
	for i := range 3 {
		chain = append(chain, like(r.issuer, func(c *x509.Certificate) {
			c.Raw, c.OCSPServer = append(slices.Clip(c.Raw), byte(i)), []string{"http://responder.example/"}
		}))
	}
	synctest.Test(t, func(t *testing.T) {
		hold := queryTimeout / 4
		c := New(time.Now, &fakeTransport{r: r, hold: func(context.Context, *ocsp.Request) error { time.Sleep(hold); return nil }})
		if err := c.Check(t.Context(), chain, nil); err != nil {
			t.Error(err)
		}
		hold = queryTimeout - time.Second
		c, at := New(time.Now, c.client.Transport), time.Now()
		if err := c.Check(t.Context(), chain, nil); err == nil || time.Since(at) != waitTimeout+queryTimeout {
			t.Errorf("%v after %v", err, time.Since(at))
		}
		time.Sleep(queryTimeout) // until the last query ends
	})
}

// The responders of a certificate share the time: a silent one leaves enough for the next.
func TestRespondersShareTheTime(t *testing.T) {
	r := newResponder(t)
	cert := r.issue("http://silent.example/", "http://silent.example/2", "http://responder.example/")
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTransport{r: r}
		f.hold = func(ctx context.Context, query *ocsp.Request) error {
			if _, _, order := f.seen(); len(order) < 3 {
				return silent(ctx, query)
			}
			return nil
		}
		at := time.Now()
		if err := New(time.Now, f).Check(t.Context(), []*x509.Certificate{cert, r.issuer}, nil); err != nil || time.Since(at) >= queryTimeout {
			t.Errorf("%v after %v", err, time.Since(at))
		}
	})
}

// The answers that are kept are bounded: those that are over go first.
func TestAnswersAreBounded(t *testing.T) {
	known := make(chan struct{})
	close(known)
	now := time.Now()
	c := New(func() time.Time { return now }, nil)
	under := &answer{known: make(chan struct{})}
	c.answers[certificateKey{9, 9, 9}] = under
	key := func(i int) certificateKey { return certificateKey{byte(i), byte(i >> 8), 1} }
	add := func(i int, until time.Time) {
		c.makeRoom()
		c.answers[key(i)] = &answer{known: known, until: until}
	}
	const over = 100
	for i := range maxAnswers - 1 {
		until := now.Add(time.Hour)
		if i < over {
			until = now
		}
		add(i, until)
	}
	if len(c.answers) != maxAnswers {
		t.Fatalf("%d answers are kept", len(c.answers))
	}
	add(maxAnswers, now.Add(time.Hour))
	if len(c.answers) != maxAnswers-over+1 || c.answers[key(0)] != nil || c.answers[key(over)] == nil {
		t.Errorf("%d answers are left, want those that count: %d", len(c.answers), maxAnswers-over+1)
	}
	for i := range 2 * over {
		add(maxAnswers+1+i, now.Add(time.Hour))
	}
	r := newResponder(t)
	<-c.answerOf(r.issue(), r.issuer).known
	if len(c.answers) != maxAnswers || c.answers[certificateKey{9, 9, 9}] != under {
		t.Errorf("%d answers, and the one under way: %v", len(c.answers), c.answers[certificateKey{9, 9, 9}])
	}
}

// A panic of a parser, or of what carries queries, is an error of one certificate, and frees its places.
func TestPanicsAreErrors(t *testing.T) {
	r := newResponder(t)
	cert := r.issue(r.url)
	synctest.Test(t, func(t *testing.T) {
		c := New(time.Now, transportFunc(func(*http.Request) (*http.Response, error) { panic("hostile bytes") }))
		err := c.Check(t.Context(), []*x509.Certificate{cert, r.issuer}, nil)
		if err == nil || !strings.Contains(err.Error(), "hostile bytes") {
			t.Errorf("a query: %v", err)
		}
		if synctest.Wait(); len(c.waiting)+len(c.queries) > 0 {
			t.Error("the places are still taken")
		}
	})
	c := New(time.Now, nil)
	withoutNumber := &x509.Certificate{} // package ocsp compares its serial number, which is nil
	good := r.sign(ocsp.Response{Status: ocsp.Good, SerialNumber: r.issuer.SerialNumber})
	if _, err := c.parse(good, withoutNumber, r.issuer); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("a staple: %v", err)
	}
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// What a responder sends makes no long error.
func TestErrorsAreShort(t *testing.T) {
	r := newResponder(t)
	c := New(time.Now, transportFunc(func(*http.Request) (*http.Response, error) { return nil, errors.New(strings.Repeat("x", 1<<20)) }))
	if err := c.Check(t.Context(), []*x509.Certificate{r.issue(r.url), r.issuer}, nil); err == nil || len(err.Error()) > maxErrorBytes+200 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}
