package types

import (
	"strconv"
	"strings"
)

// Versions of the protocol that this library speaks (§10).
const (
	V02 = "0.2"
	V03 = "0.3" // first whose signature binds the payload
	V04 = "0.4" // first with directives, acknowledgments and presence
)

// Version is a parsed ma2h_version.
type Version struct{ Major, Minor int }

func (v Version) String() string { return strconv.Itoa(v.Major) + "." + strconv.Itoa(v.Minor) }

// BindsPayload reports whether a Response of this version is signed over its
// payload: 0.3 and later (§10).
func (v Version) BindsPayload() bool { return v.Minor >= 3 }

// ParseVersion reads MAJOR.MINOR. Only canonical spellings of major 0 pass:
// "0.03" could be taken for 0.3 and is refused. A well-formed other major
// gives an error under which errors.Is finds ErrVersion.
func ParseVersion(s string) (Version, error) {
	major, minor, ok := strings.Cut(s, ".")
	if !ok || !canonicalInt(major) || !canonicalInt(minor) {
		return Version{}, &FieldError{Field: "ma2h_version", Problem: "is " + Quote(s) + ", not a canonical 0.<minor>", Section: "§10"}
	}
	if major != "0" {
		return Version{}, &versionError{FieldError{Field: "ma2h_version", Problem: "is " + Quote(s) + ", only major 0 is understood", Section: "§10"}}
	}
	n, err := strconv.Atoi(minor)
	if err != nil {
		return Version{}, &FieldError{Field: "ma2h_version", Problem: "has a minor that is out of range", Section: "§10"}
	}
	return Version{Minor: n}, nil
}

func canonicalInt(s string) bool {
	if s == "" || len(s) > 9 || len(s) > 1 && s[0] == '0' {
		return false
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
