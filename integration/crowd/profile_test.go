package crowd

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// profiler takes profiles of the processor time of this process, on a goroutine outside the bubble: in a bubble, the loop that reads
// the samples would wait in virtual time, and lose them.
type profiler struct {
	requests chan string // "" begins a profile; a name ends it
	replies  chan profileReply
}

type profileReply struct {
	costs map[string]time.Duration // by the label member; "" has what belongs to no member
	err   error
}

// newProfiler must be called outside a bubble. stop ends its goroutine.
func newProfiler() (p *profiler, stop func()) {
	p = &profiler{make(chan string), make(chan profileReply)}
	go func() {
		var b bytes.Buffer
		for name := range p.requests {
			if name == "" {
				b.Reset()
				p.replies <- profileReply{err: pprof.StartCPUProfile(&b)}
				continue
			}
			pprof.StopCPUProfile()
			costs, err := costsByMember(b.Bytes())
			if dir := os.Getenv("ROLLCALL_PROFILES"); dir != "" && err == nil {
				err = os.WriteFile(filepath.Join(dir, name+".pprof"), b.Bytes(), 0o600)
			}
			p.replies <- profileReply{costs, err}
		}
	}()
	return p, func() { close(p.requests) }
}

func (p *profiler) start() error {
	p.requests <- ""
	return (<-p.replies).err
}

// stop returns the processor time since start that the samples show: one for each 10 ms.
func (p *profiler) stop(name string) (map[string]time.Duration, error) {
	p.requests <- name
	r := <-p.replies
	return r.costs, r.err
}

// costsByMember adds up the processor time in a profile of package pprof by the label member.
func costsByMember(zipped []byte) (map[string]time.Duration, error) {
	z, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return nil, fmt.Errorf("crowd: profile: %w", err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("crowd: profile: %w", err)
	}
	// The numbers are the numbers of the fields in profile.proto.
	const sample, stringTable, sampleValue, sampleLabel, labelKey, labelText = 2, 6, 2, 3, 1, 2
	var samples [][]byte
	var table []string
	if err := eachField(text, func(number protowire.Number, _ uint64, body []byte) {
		switch number {
		case sample:
			samples = append(samples, body)
		case stringTable:
			table = append(table, string(body))
		}
	}); err != nil {
		return nil, err
	}
	costs := map[string]time.Duration{}
	for _, s := range samples {
		var nanoseconds time.Duration // the last value: the first is the number of samples
		member := ""
		err := eachField(s, func(number protowire.Number, v uint64, body []byte) {
			switch number {
			case sampleValue: // the two values are not packed
				nanoseconds = time.Duration(v)
			case sampleLabel:
				var key, value uint64
				_ = eachField(body, func(number protowire.Number, v uint64, _ []byte) {
					switch number {
					case labelKey:
						key = v
					case labelText:
						value = v
					}
				})
				if max(key, value) < uint64(len(table)) && table[key] == "member" {
					member = table[value]
				}
			}
		})
		if err != nil {
			return nil, err
		}
		costs[member] += nanoseconds
	}
	return costs, nil
}

var errProfile = errors.New("crowd: the profile is not encoded as expected")

// eachField calls do for each field of an encoded message, with its number or its bytes.
func eachField(text []byte, do func(number protowire.Number, value uint64, body []byte)) error {
	for len(text) > 0 {
		number, wire, n := protowire.ConsumeTag(text)
		if n < 0 {
			return errProfile
		}
		text = text[n:]
		switch wire {
		case protowire.VarintType:
			v, n := protowire.ConsumeVarint(text)
			if n < 0 {
				return errProfile
			}
			do(number, v, nil)
			text = text[n:]
		case protowire.BytesType:
			body, n := protowire.ConsumeBytes(text)
			if n < 0 {
				return errProfile
			}
			do(number, 0, body)
			text = text[n:]
		default:
			return errProfile
		}
	}
	return nil
}
