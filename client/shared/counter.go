package shared

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"strconv"

	"rollcall/client"
)

// Encoding is the form of a counter's number in the data of its node. All clients of a counter must use the same.
type Encoding int

const (
	// Int32 is a number of 4 bytes, big endian: Curator's SharedCount and DistributedAtomicInteger, and kazoo's Counter
	// with support_curator.
	Int32 Encoding = iota
	// Int64 is a number of 8 bytes, big endian: Curator's DistributedAtomicLong.
	Int64
	// Decimal is a whole number in decimal digits: kazoo's Counter with a whole number.
	Decimal
)

var (
	// ErrOverflow means that the sum has no place in the counter's encoding. The counter is unchanged.
	ErrOverflow = errors.New("the number is too large for the counter's encoding")
	// ErrNoNumber means that the node's data are no number of the counter's encoding.
	ErrNoNumber = errors.New("the data are no number of the counter's encoding")
)

// CounterConfig has the settings of a Counter. The zero value is ready for use.
type CounterConfig struct {
	Encoding Encoding // default: Int32
	Initial  int64    // the number while there is no node

	// See Config.
	Receipts   string
	NoReceipts bool
	ACL        []client.ACL
}

// Counter is a whole number that clients share. It is safe for concurrent use.
type Counter struct {
	value       *Value
	encoding    Encoding
	configError error // of the configuration
}

// NewCounter returns the Counter in the node with this path. It does not use the network. If the initial number has no
// place in the encoding, all methods fail with ErrOverflow.
func NewCounter(c *client.Client, path string, cfg CounterConfig) *Counter {
	initial, err := cfg.Encoding.encodeNumber(cfg.Initial)
	if err != nil {
		err = fmt.Errorf("shared: counter %s: the initial number: %w", path, err)
	}
	value := NewValue(c, path, Config{
		Initial: initial, Receipts: cfg.Receipts, NoReceipts: cfg.NoReceipts, ACL: cfg.ACL,
	})
	return &Counter{value: value, encoding: cfg.Encoding, configError: err}
}

// Get returns the number.
func (k *Counter) Get(ctx context.Context) (int64, error) {
	if k.configError != nil {
		return 0, k.configError
	}
	r, err := k.value.Get(ctx)
	if err != nil {
		return 0, err
	}
	return k.decodeRevision(r)
}

// Set sets the number, whatever it is.
func (k *Counter) Set(ctx context.Context, n int64) error {
	data, err := k.encodeNumber(n)
	if err == nil {
		_, err = k.value.Set(ctx, data)
	}
	return err
}

// Add adds delta, which may be negative, and returns the sum. It adds once or not at all; if client.MayHaveHappened is
// true for its error, it does not know. It fails with ErrOverflow if the sum has no place in the encoding, and with
// ErrContended as Value.Update does.
func (k *Counter) Add(ctx context.Context, delta int64) (int64, error) {
	sum, err := k.update(ctx, func(n int64) (int64, error) {
		if (n+delta > n) != (delta > 0) {
			return 0, k.wrapError(fmt.Errorf("%w: %d and %d", ErrOverflow, n, delta))
		}
		return n + delta, nil
	})
	if err != nil {
		return 0, err
	}
	return sum, nil
}

// update sets the number to what change makes of it.
func (k *Counter) update(ctx context.Context, change func(n int64) (int64, error)) (changed int64, err error) {
	if k.configError != nil {
		return 0, k.configError
	}
	_, err = k.value.Update(ctx, func(r Revision) ([]byte, error) {
		n, err := k.decodeRevision(r)
		if err == nil {
			changed, err = change(n)
		}
		if err != nil {
			return nil, err
		}
		return k.encodeNumber(changed)
	})
	return changed, err
}

// CompareAndSet sets the number to n if it is old. It reports whether it did so.
func (k *Counter) CompareAndSet(ctx context.Context, old, n int64) (bool, error) {
	_, err := k.update(ctx, func(now int64) (int64, error) {
		if now != old {
			return 0, errNotOld
		}
		return n, nil
	})
	if errors.Is(err, errNotOld) {
		return false, nil
	}
	return err == nil, err
}

// errNotOld means that CompareAndSet has found another number.
var errNotOld = errors.New("the counter has another number")

// Watch returns the number, and then each later one, as Value.Watch does.
func (k *Counter) Watch(ctx context.Context) iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		if k.configError != nil {
			yield(0, k.configError)
			return
		}
		for r, err := range k.value.Watch(ctx) {
			var n int64
			if err == nil {
				n, err = k.decodeRevision(r)
			}
			if !yield(n, err) {
				return
			}
		}
	}
}

func (k *Counter) encodeNumber(n int64) ([]byte, error) {
	if k.configError != nil {
		return nil, k.configError
	}
	data, err := k.encoding.encodeNumber(n)
	return data, k.wrapError(err)
}

func (k *Counter) decodeRevision(r Revision) (int64, error) {
	n, err := k.encoding.decodeNumber(r.Data)
	return n, k.wrapError(err)
}

func (k *Counter) wrapError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("shared: counter %s: %w", k.value.path, err)
}

func (e Encoding) encodeNumber(n int64) ([]byte, error) {
	switch e {
	case Int64:
		return binary.BigEndian.AppendUint64(nil, uint64(n)), nil
	case Decimal:
		return strconv.AppendInt(nil, n, 10), nil
	}
	if n < math.MinInt32 || n > math.MaxInt32 {
		return nil, fmt.Errorf("%w: %d; it must be %d to %d, or use Int64", ErrOverflow, n, math.MinInt32, math.MaxInt32)
	}
	return binary.BigEndian.AppendUint32(nil, uint32(n)), nil
}

// decodeNumber returns the number in data. As for Curator and kazoo, no data are 0.
func (e Encoding) decodeNumber(data []byte) (int64, error) {
	switch {
	case len(data) == 0:
		return 0, nil
	case e == Decimal:
		if n, err := strconv.ParseInt(string(data), 10, 64); err == nil {
			return n, nil
		}
	case e == Int64 && len(data) == 8:
		return int64(binary.BigEndian.Uint64(data)), nil
	case e == Int32 && len(data) == 4:
		return int64(int32(binary.BigEndian.Uint32(data))), nil
	}
	return 0, fmt.Errorf("%w: %d bytes, %.20q; another encoding may fit", ErrNoNumber, len(data), data)
}
