// Command imageconfig prints the configuration of a container image, in the format that docker load reads. It takes what
// deploy/Dockerfile says of the image, so both ways to make it give the same image. It reads no COPY: the layer is there already.
//
//	go -C tools/pinned run ./imageconfig -arch amd64 -version 0.1.0 -created SECONDS -layer layer.tar ../../deploy/Dockerfile
package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

func main() {
	arch := flag.String("arch", "", "`processor` of the binary, such as amd64")
	version := flag.String("version", "", "`version` of the binary")
	created := flag.Int64("created", 0, "the image's time, in `seconds` since 1970")
	layer := flag.String("layer", "", "`file` of the image's only layer, not compressed")
	flag.Parse()
	if flag.NArg() != 1 || *arch == "" || *version == "" || *layer == "" {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(os.Stdout, flag.Arg(0), *arch, *version, *layer, time.Unix(*created, 0).UTC()); err != nil {
		fmt.Fprintln(os.Stderr, "imageconfig:", err)
		os.Exit(1)
	}
}

// image is the part of an image's configuration that is used here. Its names are those of the format.
type image struct {
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	Created      time.Time `json:"created"`
	Config       settings  `json:"config"`
	RootFS       struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

type settings struct {
	User         string
	ExposedPorts map[string]struct{}
	Env          []string
	Entrypoint   []string
	Cmd          []string
	Volumes      map[string]struct{}
	Labels       map[string]string
	Healthcheck  *healthcheck
}

type healthcheck struct {
	Test                           []string
	Interval, Timeout, StartPeriod time.Duration
	Retries                        int
}

func run(w io.Writer, dockerfile, arch, version, layer string, created time.Time) error {
	text, err := os.ReadFile(dockerfile)
	if err != nil {
		return err
	}
	img := image{Architecture: arch, OS: "linux", Created: created}
	if img.Config, err = parse(string(text)); err != nil {
		return fmt.Errorf("%s: %w", dockerfile, err)
	}
	img.Config.Labels["org.opencontainers.image.version"] = version
	archive, err := os.ReadFile(layer)
	if err != nil {
		return err
	}
	img.RootFS.Type, img.RootFS.DiffIDs = "layers", []string{fmt.Sprintf("sha256:%x", sha256.Sum256(archive))}
	return json.NewEncoder(w).Encode(img)
}

// parse reads the instructions of a Dockerfile that say how the image runs. An instruction that it does not know is an error, so
// that none is missing in the archive.
func parse(text string) (settings, error) {
	s := settings{ExposedPorts: map[string]struct{}{}, Volumes: map[string]struct{}{}, Labels: map[string]string{}}
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest = strings.TrimSpace(rest)
		var err error
		switch {
		case name == "" || strings.HasPrefix(name, "#") || name == "FROM" || name == "COPY":
		case name == "LABEL":
			err = s.label(rest)
		case name == "ENV":
			s.Env = append(s.Env, strings.Fields(rest)...)
		case name == "USER":
			s.User = rest
		case name == "VOLUME":
			s.Volumes[rest] = struct{}{}
		case name == "EXPOSE":
			for _, port := range strings.Fields(rest) {
				s.ExposedPorts[port+"/tcp"] = struct{}{}
			}
		case name == "ENTRYPOINT":
			err = json.Unmarshal([]byte(rest), &s.Entrypoint)
		case name == "CMD":
			err = json.Unmarshal([]byte(rest), &s.Cmd)
		case name == "HEALTHCHECK":
			s.Healthcheck, err = parseHealthcheck(rest)
		default:
			err = errors.New("it is not known here: add it to tools/pinned/imageconfig")
		}
		if err != nil {
			return settings{}, fmt.Errorf("instruction %s: %w", name, err)
		}
	}
	return s, nil
}

// label reads the labels KEY="VALUE" of one instruction.
func (s *settings) label(text string) error {
	for text != "" {
		key, rest, found := strings.Cut(text, `="`)
		value, rest, closed := strings.Cut(rest, `"`)
		if !found || !closed {
			return fmt.Errorf("%q is no KEY=\"VALUE\"", text)
		}
		s.Labels[key], text = value, strings.TrimSpace(rest)
	}
	return nil
}

func parseHealthcheck(text string) (*healthcheck, error) {
	options, command, found := strings.Cut(text, " CMD ")
	if !found {
		return nil, fmt.Errorf("%q has no CMD", text)
	}
	var h healthcheck
	var args []string
	if err := json.Unmarshal([]byte(command), &args); err != nil {
		return nil, err
	}
	h.Test = append([]string{"CMD"}, args...)
	flags := flag.NewFlagSet("HEALTHCHECK", flag.ContinueOnError)
	flags.DurationVar(&h.Interval, "interval", 0, "")
	flags.DurationVar(&h.Timeout, "timeout", 0, "")
	flags.DurationVar(&h.StartPeriod, "start-period", 0, "")
	flags.IntVar(&h.Retries, "retries", 0, "")
	return &h, flags.Parse(strings.Fields(options))
}
