package canon_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"

	"github.com/ma2h/ma2h-go/internal/canon"
)

// shapes are bodies of about n bytes, each hard on another part of the work.
var shapes = []struct {
	name string
	make func(n int) []byte
}{
	{"text in few members", func(n int) []byte {
		return []byte(`{"response":{"value":{"text":"` + strings.Repeat("all quiet on the bridge ", n/24) + `"}}}`)
	}},
	{"records", func(n int) []byte {
		return object(n, func(b *strings.Builder, i int) {
			fmt.Fprintf(b, `"step_%d":{"title":"Migrate shard %d of the ledger","done":%t,"cost":%d.25,"notes":"checked twice, no drift was found"}`, i, i, i%2 == 0, i)
		})
	}},
	{"many members out of order", func(n int) []byte {
		return object(n, func(b *strings.Builder, i int) { fmt.Fprintf(b, `"k%07d":"v"`, i*7919%1000003) })
	}},
	{"many members in order", func(n int) []byte {
		return object(n, func(b *strings.Builder, i int) { fmt.Fprintf(b, `"k%07d":"v"`, i) })
	}},
	{"names that share a long beginning", func(n int) []byte {
		long := strings.Repeat("x", 500)
		return object(n, func(b *strings.Builder, i int) { fmt.Fprintf(b, `"%s%07d":0`, long, i*7919%1000003) })
	}},
	{"names of escapes", func(n int) []byte {
		return object(n, func(b *strings.Builder, i int) {
			fmt.Fprintf(b, `"\u0001\n\u00f6\ud83d\ude00%07d":0`, i*7919%1000003)
		})
	}},
	{"64 levels, each out of order around one text", func(n int) []byte {
		return []byte(strings.Repeat(`{"b":0,"a":`, 63) + `{"b":"` + strings.Repeat("x", max(0, n-700)) + `"}` + strings.Repeat("}", 63))
	}},
	{"many deep objects out of order", func(n int) []byte {
		deep := strings.Repeat(`{"b":0,"a":`, 60) + "0" + strings.Repeat("}", 60)
		return object(n, func(b *strings.Builder, i int) { fmt.Fprintf(b, `"k%d":%s`, i, deep) })
	}},
	{"numbers of 17 digits", func(n int) []byte {
		return object(n, func(b *strings.Builder, i int) { fmt.Fprintf(b, `"%d":%d.1234567890123456e-5`, i, i%10) })
	}},
	{"numbers that grow", func(n int) []byte {
		return []byte(`{"n":[1e20` + strings.Repeat(",1e20", n/5) + `]}`)
	}},
	{"escapes", func(n int) []byte {
		return []byte(`{"s":"` + strings.Repeat(`\u00f6\n\"`, n/10) + `"}`)
	}},
	{"empty objects", func(n int) []byte {
		return []byte(`{"a":[{}` + strings.Repeat(",{}", n/3) + `]}`)
	}},
}

func object(n int, member func(b *strings.Builder, i int)) []byte {
	var b strings.Builder
	b.WriteByte('{')
	for i := 0; b.Len() < n; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		member(&b, i)
	}
	b.WriteByte('}')
	return []byte(b.String())
}

var sizes = []int{1 << 10, 64 << 10, 1 << 20}

func BenchmarkParse(b *testing.B) {
	for _, s := range shapes {
		for _, n := range sizes {
			text := s.make(n)
			run(b, fmt.Sprintf("%s/%dKB", s.name, n>>10), text, func() error {
				_, err := canon.Parse(text)
				return err
			})
		}
	}
}

// BenchmarkSHA256 is the yardstick of BenchmarkParse: what the same bytes cost
// to digest.
func BenchmarkSHA256(b *testing.B) {
	for _, n := range sizes {
		text := shapes[0].make(n)
		run(b, fmt.Sprintf("%dKB", n>>10), text, func() error { sha256.Sum256(text); return nil })
	}
}

func BenchmarkSecondCanonicaliser(b *testing.B) {
	text := shapes[1].make(1 << 10)
	run(b, "1KB", text, func() error {
		_, err := jcs.Transform(text)
		return err
	})
}

func run(b *testing.B, name string, text []byte, f func() error) {
	b.Run(name, func(b *testing.B) {
		b.SetBytes(int64(len(text)))
		b.ReportAllocs()
		for b.Loop() {
			if err := f(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
