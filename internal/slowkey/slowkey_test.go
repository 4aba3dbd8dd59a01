package slowkey

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/crypto/argon2"
)

// A key is that of Argon2id with the purpose as its salt. The costs stand here once more: another end of a proof uses the same.
func TestCosts(t *testing.T) {
	if got, want := Derive("one purpose", "one secret"), argon2.IDKey([]byte("one secret"), []byte("one purpose"), 3, 32<<10, 1, 32); string(got[:]) != string(want) {
		t.Errorf("%x, want %x", got[:], want)
	}
}

// A new key is slow to derive, and a known one is not. Each secret and purpose has a key of its own.
func TestOf(t *testing.T) {
	begun := time.Now()
	key := Derive("a purpose", "a secret")
	slow := time.Since(begun)
	begun = time.Now()
	again := Derive("a purpose", "a secret")
	if fast := time.Since(begun); again != key || fast > slow/10 {
		t.Errorf("the same key after %v, and then after %v", slow, fast)
	}
	if slow < 5*time.Millisecond {
		t.Errorf("a new key took %v: it can be guessed", slow)
	}
	if Derive("another", "a secret") == key || Derive("a purpose", "another") == key {
		t.Error("two keys are the same")
	}
	if text := fmt.Sprintf("%v %+v %#v %s", key, key, key, key); text != "(a key) (a key) (a key) (a key)" {
		t.Errorf("it is printed: %s", text)
	}
}

// The keys that are remembered are bounded.
func TestKept(t *testing.T) {
	keyCache.keys = map[keySource]Key{}
	for i := range maxCachedKeys {
		keyCache.keys[keySource{"bounded", fmt.Sprint(i)}] = Key{}
	}
	Derive("bounded", "one more")
	if n := len(keyCache.keys); n > maxCachedKeys {
		t.Errorf("%d keys", n)
	}
}

// BenchmarkOf derives a key each time.
func BenchmarkOf(b *testing.B) {
	for i := 0; b.Loop(); i++ {
		Derive("benchmark", fmt.Sprint(i))
	}
}
