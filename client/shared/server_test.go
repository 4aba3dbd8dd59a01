package shared

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"

	"rollcall/client"
	"rollcall/client/internal/recipetest"
	"rollcall/zk/jute"
)

// A write that is based on there being no value does not replace one that another client has created since.
func TestTrySetOfNewValue(t *testing.T) {
	for _, noReceipts := range []bool{false, true} {
		recipetest.Run(t, 2, func(b *recipetest.Bed) {
			cfg := Config{Initial: []byte("initial"), NoReceipts: noReceipts}
			ours, theirs := NewValue(b.Clients[0], "/a/v", cfg), NewValue(b.Clients[1], "/a/v", cfg)
			seen, err := ours.Get(b.Ctx)
			if err != nil || seen.Exists || string(seen.Data) != "initial" {
				b.Fatalf("%+v, %v, want the initial value", seen, err)
			}
			_, err = theirs.Set(b.Ctx, []byte("theirs"))
			b.Must(err)
			now, set, err := ours.TrySet(b.Ctx, seen, []byte("ours"))
			if err != nil || set || string(now.Data) != "theirs" {
				b.Errorf("TrySet: %q, %v, %v, want the other client's", now.Data, set, err)
			}
			now, set, err = ours.TrySet(b.Ctx, now, []byte("ours"))
			if err != nil || !set || string(now.Data) != "ours" || now.Stat.Version != 2 {
				b.Errorf("TrySet of the present revision: %+v, %v, %v", now, set, err)
			}
		})
	}
}

// A write that is based on there being no value finds one that another client has created with other data, or has set
// since to the same data.
func TestTrySetOfCreatedValue(t *testing.T) {
	for data, sets := range map[string]int{"theirs": 0, "initial": 1} {
		recipetest.Run(t, 1, func(b *recipetest.Bed) {
			value := NewValue(b.Clients[0], "/v", Config{Initial: []byte("initial")})
			seen, err := value.Get(b.Ctx)
			b.Must(err)
			_, _, err = b.Clients[0].Create(b.Ctx, "/v", []byte(data), client.Persistent)
			b.Must(err)
			for range sets {
				b.SetData("/v", data)
			}
			now, set, err := value.TrySet(b.Ctx, seen, []byte("ours"))
			if err != nil || set || string(now.Data) != data {
				b.Errorf("TrySet: %q, %v, %v, want %q", now.Data, set, err, data)
			}
		})
	}
}

// A write without a receipt is sent again if the value shows that the request was lost, and is not if another client's
// write shows that. If its own write may have been carried out, its outcome is unknown.
func TestSetWithoutReceipt(t *testing.T) {
	for name, tt := range map[string]struct {
		fault     func(b *recipetest.Bed)
		want      string
		isUnknown bool
	}{
		"request lost": {func(b *recipetest.Bed) { b.Disconnect(false) }, "ours 1", false},
		"another client was faster": {func(b *recipetest.Bed) {
			b.Disconnect(false)
			b.SetData("/v", "theirs")
		}, "ours 2", false},
		"reply lost": {func(b *recipetest.Bed) { b.LoseReply(jute.OpSetData) }, "ours 1", true},
	} {
		recipetest.Run(t, 1, func(b *recipetest.Bed) {
			b.CreateNode("/v")
			b.Before(b.Clients[0], jute.OpSetData, 1, func(string) { tt.fault(b) })
			_, err := NewValue(b.Clients[0], "/v", Config{NoReceipts: true}).Set(b.Ctx, []byte("ours"))
			data, stat, _ := b.Clients[0].Get(b.Ctx, "/v")
			if got := fmt.Sprint(string(data), " ", stat.Version); got != tt.want || client.MayHaveHappened(err) != tt.isUnknown ||
				(err != nil) != tt.isUnknown {
				b.Errorf("%s: %s, %v, want %s", name, got, err, tt.want)
			}
		})
	}
}

// Each Add is carried out once, although other clients add and replies are lost.
func TestAddOnce(t *testing.T) {
	recipetest.Run(t, 3, func(b *recipetest.Bed) {
		const rounds = 10
		b.SetOnRequest(func(op jute.Op, _ string, count int) bool { return op == jute.OpMulti && count%4 == 0 })
		var adding sync.WaitGroup
		for _, c := range b.Clients {
			adding.Go(func() {
				counter := NewCounter(c, "/n", CounterConfig{})
				for range rounds {
					if _, err := counter.Add(b.Ctx, 1); err != nil {
						b.Error(err)
					}
				}
			})
		}
		adding.Wait()
		b.SetOnRequest(nil)
		if n, err := NewCounter(b.Clients[0], "/n", CounterConfig{}).Get(b.Ctx); err != nil || n != rounds*int64(len(b.Clients)) {
			b.Errorf("%d, %v, want %d", n, err, rounds*len(b.Clients))
		}
	})
}

// An Add whose reply is lost is carried out once, also if the next server does not know it yet.
func TestAddOnceAtServerThatLags(t *testing.T) {
	recipetest.Run(t, 1, func(b *recipetest.Bed) {
		c := b.Clients[0]
		counter := NewCounter(c, "/n", CounterConfig{})
		b.Must(counter.Set(b.Ctx, 1))
		b.Before(c, jute.OpMulti, 1, func(string) { b.LagAtNextServer(recipetest.ID(c)) })
		b.LoseReply(jute.OpMulti)
		if n, err := counter.Add(b.Ctx, 1); err != nil || n != 2 {
			b.Errorf("%d, %v, want 2", n, err)
		}
	})
}

// A receipt that an operator deletes is created again, however often.
func TestReceiptIsDeleted(t *testing.T) {
	recipetest.Run(t, 1, func(b *recipetest.Bed) {
		counter := NewCounter(b.Clients[0], "/n", CounterConfig{})
		for want := int64(1); want <= 70; want++ {
			if n, err := counter.Add(b.Ctx, 1); err != nil || n != want {
				b.Fatalf("%d, %v, want %d", n, err, want)
			}
			b.DeleteNode("/n-receipts/" + b.Children("/n-receipts")[0])
		}
	})
}

// All values of a client have 64 receipts together, however many there are.
func TestReceiptsAreBounded(t *testing.T) {
	recipetest.Run(t, 1, func(b *recipetest.Bed) {
		const values = 70
		for i := range values {
			_, err := NewValue(b.Clients[0], fmt.Sprintf("/v%d", i), Config{}).Set(b.Ctx, nil)
			b.Must(err)
		}
		synctest.Wait()
		receipts := 0
		for i := range values {
			receipts += len(b.Children(fmt.Sprintf("/v%d-receipts", i)))
		}
		if receipts != 64 {
			b.Errorf("%d receipts, want 64", receipts)
		}
	})
}

// A sum that has no place in the encoding is an error, and changes nothing.
func TestAddOverflows(t *testing.T) {
	for encoding, most := range map[Encoding]int64{Int32: math.MaxInt32, Int64: math.MaxInt64, Decimal: math.MaxInt64} {
		recipetest.Run(t, 1, func(b *recipetest.Bed) {
			counter := NewCounter(b.Clients[0], "/n", CounterConfig{Encoding: encoding})
			b.Must(counter.Set(b.Ctx, most))
			if _, err := counter.Add(b.Ctx, 1); !errors.Is(err, ErrOverflow) {
				b.Errorf("%v, want %v", err, ErrOverflow)
			}
			if n, err := counter.Get(b.Ctx); err != nil || n != most {
				b.Errorf("%d, %v, want %d", n, err, most)
			}
		})
	}
}

// A Watch gets the present value, and each later one, also the creation and the deletion of the node.
func TestWatchValue(t *testing.T) {
	recipetest.Run(t, 2, func(b *recipetest.Bed) {
		ctx, cancel := context.WithCancel(b.Ctx)
		defer cancel()
		var mu sync.Mutex
		var last Revision
		go func() {
			for r, err := range NewValue(b.Clients[0], "/v", Config{Initial: []byte("none")}).Watch(ctx) {
				mu.Lock()
				if err == nil {
					last = r
				}
				mu.Unlock()
			}
		}()
		want := func(text string) {
			b.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if string(last.Data) != text {
				b.Errorf("the watch has %q, want %q", last.Data, text)
			}
		}
		want("none")
		other := NewValue(b.Clients[1], "/v", Config{})
		for _, text := range []string{"a", "b"} {
			_, err := other.Set(b.Ctx, []byte(text))
			b.Must(err)
			want(text)
		}
		b.DeleteNode("/v")
		want("none")
		b.Disconnect(true)
		synctest.Wait()
		b.CreateNode("/v")
		b.SetData("/v", "c")
		b.AllowConnections()
		b.Reconnect()
		want("c")
	})
}
