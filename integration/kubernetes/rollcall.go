package kubernetes

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The images that the nodes have. The second one is the same source with another stamp.
const (
	firstImage = "rollcall:first"
	nextImage  = "rollcall:next"
)

// buildImages builds the binary of each image into a directory: from ROLLCALL_SOURCE or this tree, and nextImage from
// ROLLCALL_NEXT_SOURCE if that is set.
func buildImages(dir string) error {
	source := os.Getenv("ROLLCALL_SOURCE")
	if source == "" {
		source = "../.."
	}
	next := os.Getenv("ROLLCALL_NEXT_SOURCE")
	if next == "" {
		next = source
	}
	for image, source := range map[string]string{firstImage: source, nextImage: next} {
		build := exec.Command("go", "build", "-C", source, "-trimpath", "-buildvcs=false", "-ldflags", "-X main.stamp="+stamp(image),
			"-o", binaryOf(dir, image), "./cmd/rollcall")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("go build of rollcall in %s: %w\n%s", source, err, out)
		}
	}
	return nil
}

// stamp returns the commit and its date that the binary of an image shows. The image's tag stands for the commit.
func stamp(image string) string {
	_, tag, _ := strings.Cut(image, ":")
	return tag + ",2026-01-01T00:00:00Z"
}

func binaryOf(dir, image string) string { return filepath.Join(dir, image) }

// images returns the binary in each image.
func images(dir string) map[string]string {
	return map[string]string{firstImage: binaryOf(dir, firstImage), nextImage: binaryOf(dir, nextImage)}
}
