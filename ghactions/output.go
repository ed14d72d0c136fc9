package ghactions

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

var outputName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,99}$`)

// WriteOutput sets an output of this step: it appends to the file that
// GITHUB_OUTPUT names. The value may hold anything a human can write: its end
// is a random marker, made for this write, and a value that holds the marker is
// refused, so a value can never set another output.
func WriteOutput(name, value string) error {
	path := os.Getenv("GITHUB_OUTPUT")
	if path == "" {
		return fmt.Errorf("ghactions: GITHUB_OUTPUT is not set")
	}
	entry, err := outputEntry(name, value, rand.Text())
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("ghactions: output file: %w", err)
	}
	_, err = f.WriteString(entry)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("ghactions: output file: %w", err)
	}
	return nil
}

func outputEntry(name, value, marker string) (string, error) {
	if !outputName.MatchString(name) {
		return "", fmt.Errorf("ghactions: output name is not a letter or underscore and up to 99 of letters, digits, _ and -")
	}
	if strings.Contains(value, marker) {
		return "", fmt.Errorf("ghactions: the value of output %s holds the marker that ends it", name)
	}
	// An empty line is nothing to the runner, and ends one that a step left open.
	return "\n" + name + "<<" + marker + "\n" + value + "\n" + marker + "\n", nil
}

// Mask tells the runner, on w (standard output), to hide a sensitive value in
// everything that follows in the log: each of its lines, and its base64 form.
// Call it before anything that could print the value.
func Mask(w io.Writer, value string) error {
	var b strings.Builder
	for line := range strings.SplitSeq(strings.ReplaceAll(value, "\r", "\n"), "\n") {
		if strings.TrimSpace(line) != "" {
			b.WriteString("::add-mask::" + escapeCommand(line) + "\n")
		}
	}
	if b.Len() > 0 {
		b.WriteString("::add-mask::" + base64.StdEncoding.EncodeToString([]byte(value)) + "\n")
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("ghactions: mask: %w", err)
	}
	return nil
}

// escapeCommand encodes what a workflow command would read as its end.
func escapeCommand(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}
