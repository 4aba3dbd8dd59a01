package member

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"rollcall/config"
	"rollcall/internal/lockwatch"
	"rollcall/leader"
	"rollcall/znode"
)

// unwatched are the locks that no health check watches, with the reason.
var unwatched = map[string]string{
	"disk.boltFile.mu":              "held while the disk works, which disk.operations notices",
	"disk.segmentLog.writing":       "held while the disk works, which disk.operations notices",
	"disk.segmentLog.mu":            "held while the disk works, which disk.operations notices",
	"disk.remover.mu":               "held while the disk works, in the background",
	"history.Keeper.files":          "in the background; a log that finds its disk full waits for it, which disk.operations notices",
	"keystore.Keys.reloadMu":        "only reloads wait for it, while they read files",
	"server.missedSweep.searchTurn": "held for a whole search, which holds the tree's lock in steps",
	"admission.LogLimiter.mu":       "held for one call of package rate",
	"tenant.Limiter.mu":             "only changes of the limits wait for it",
	"admission.SessionThrottle.mu":  "held for one call of package rate",
	"follower.leaderContact.mu":     "held for one assignment",
	"admin.requestAuditor.mu":       "only requests over HTTP wait for it",
	"admin.eventStreams.mu":         "only requests over HTTP wait for it",
	"served.feed.mu":                "held for some microseconds, and taken before no other lock",
	"lockwatch.Watch.mu":            "a health check takes it",
}

// runStandalone runs a standalone member in real time, with an operator's port in memory. A lock may be held for limit.
func runStandalone(t *testing.T, limit time.Duration) (m *Member, get func(path string) (int, string), stop func()) {
	t.Helper()
	l := newLoopback(1)
	settings := config.Settings{
		Dir: t.TempDir(), Tick: 200 * time.Millisecond, MinTimeout: 400 * time.Millisecond, MaxTimeout: time.Minute,
		Reaping: leader.Reaping{Interval: time.Hour}, Rules: znode.Rules{TTLNodes: true}, StoreStallLimit: limit,
	}
	m, err := New(Config{
		ID: 1, Servers: []Server{{ID: 1, GrpcAddr: "127.0.0.1:1", RaftAddr: "127.0.0.1:2"}}, OperatorListener: l,
		Logger: slog.New(slog.DiscardHandler), Settings: settings.WithDefaults(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	get = func(path string) (int, string) {
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.dial(ctx) }, DisableKeepAlives: true}
		reply, err := (&http.Client{Transport: transport, Timeout: 10 * limit}).Get("http://localhost" + path)
		if err != nil {
			return 0, err.Error()
		}
		defer func() { _ = reply.Body.Close() }()
		text, err := io.ReadAll(reply.Body)
		if err != nil {
			return 0, err.Error()
		}
		return reply.StatusCode, string(text)
	}
	select {
	case <-m.incarnation.ready:
	case <-time.After(time.Minute):
		t.Fatal("the member does not serve")
	}
	return m, get, stop
}

// findLocks calls found for each lock that v has, or that pointers lead to, with the package and type that has it and its field.
// It looks into no list: the elements of lists come and go.
func findLocks(v reflect.Value, seen map[unsafe.Pointer]bool, found func(name string, at unsafe.Pointer)) {
	switch v.Kind() {
	case reflect.Interface:
		findLocks(v.Elem(), seen, found)
	case reflect.Pointer:
		if of := v.Type().Elem(); v.IsNil() || !strings.HasPrefix(of.PkgPath(), "rollcall/") || seen[v.UnsafePointer()] {
			return
		}
		seen[v.UnsafePointer()] = true
		findLocks(v.Elem(), seen, found)
	case reflect.Array:
		for i := range v.Len() {
			findLocks(v.Index(i), seen, found)
		}
	case reflect.Struct:
		if v.Type().PkgPath() == "sync" {
			return
		}
		defer unlockAll(lockFree(v))
		for i := range v.NumField() {
			f, in := v.Field(i), v.Type()
			if isLock(f) {
				owner, _, _ := strings.Cut(in.String(), "[")
				found(owner+"."+in.Field(i).Name, f.Addr().UnsafePointer())
				continue
			}
			findLocks(f, seen, found)
		}
	}
}

func isLock(f reflect.Value) bool {
	return f.Type() == reflect.TypeFor[sync.Mutex]() || f.Type() == reflect.TypeFor[sync.RWMutex]()
}

// tryLocker is a mutex of either kind.
type tryLocker interface {
	sync.Locker
	TryLock() bool
}

// lockOf returns the lock in a field for which isLock is true.
func lockOf(f reflect.Value) tryLocker {
	if f.Type() == reflect.TypeFor[sync.Mutex]() {
		return (*sync.Mutex)(f.Addr().UnsafePointer())
	}
	return (*sync.RWMutex)(f.Addr().UnsafePointer())
}

// lockFree takes those of a struct's locks that are free: the last goroutine that held one may have ended without another sign, and
// what it wrote is read now.
func lockFree(v reflect.Value) (taken []sync.Locker) {
	for i := range v.NumField() {
		if f := v.Field(i); isLock(f) {
			if l := lockOf(f); l.TryLock() { // if not, this goroutine has it: a pointer leads back to the struct
				taken = append(taken, l)
			}
		}
	}
	return taken
}

func unlockAll(locks []sync.Locker) {
	for _, l := range locks {
		l.Unlock()
	}
}

// lockPointer returns where a watched lock is.
func lockPointer(l lockwatch.Lock) unsafe.Pointer {
	v := reflect.ValueOf(l.Locker)
	if v.Kind() == reflect.Struct { // lockwatch.Reading
		v = v.Field(0)
	}
	return v.UnsafePointer()
}

// A health check watches each lock of a member that leads, under its own name, or there is a reason not to.
func TestEveryLockIsWatched(t *testing.T) {
	m, _, stop := runStandalone(t, time.Minute)
	watched := map[unsafe.Pointer]string{}
	for _, l := range m.locks() {
		watched[lockPointer(l)] = l.Name
	}
	leading := m.terms.currentLeader.Load()
	stop() // nothing changes any more
	count := 0
	found := func(name string, at unsafe.Pointer) {
		count++
		_, without := unwatched[name]
		if got := watched[at]; got != name && (got != "" || !without) {
			t.Errorf("the lock %s is watched as %q", name, got)
		}
	}
	seen := map[unsafe.Pointer]bool{}
	findLocks(reflect.ValueOf(m), seen, found)
	findLocks(reflect.ValueOf(leading), seen, found)
	if count < 40 {
		t.Errorf("%d locks are found", count)
	}
}

// A lock that is held without end makes /livez fail, and the reply names it, or there is none. When it is free, the member works
// again.
func TestHeldLocksEndLiveness(t *testing.T) {
	const limit = 100 * time.Millisecond
	m, get, _ := runStandalone(t, limit)
	await := func(what string, wanted func(status int, text string) bool) {
		t.Helper()
		var status int
		var text string
		for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(limit / 10) {
			if status, text = get("/livez"); wanted(status, text) {
				return
			}
		}
		t.Fatalf("%s: %d %s", what, status, text)
	}
	names := map[string]bool{}
	for _, l := range m.locks() {
		names[l.Name] = true
	}
	for name := range names {
		await("before "+name, func(status int, _ string) bool { return status == http.StatusOK && m.Role() != "" })
		all := m.locks() // the leader is another one after a lock was held
		l := all[slices.IndexFunc(all, func(l lockwatch.Lock) bool { return l.Name == name })]
		hold := l.Locker
		if v := reflect.ValueOf(hold); v.Kind() == reflect.Struct { // as a writer
			hold = (*sync.RWMutex)(lockPointer(l))
		}
		hold.Lock()
		await(l.Name, func(status int, text string) bool {
			return status == 0 || status == http.StatusServiceUnavailable && strings.Contains(text, "lock ")
		})
		hold.Unlock()
	}
}
