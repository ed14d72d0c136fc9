// Package limits holds every bound of the library in one place. Each is tested
// at its value and one past it.
package limits

import "time"

// Bounds on JSON that comes from outside.
const (
	// MaxDepth is how deep arrays and objects may nest, the outermost being 1.
	MaxDepth = 64
	// MaxNumberLen is the longest number literal, in bytes.
	MaxNumberLen = 400
	// MaxTinyNumbers is how many numbers below the normal doubles a text may
	// hold, zero not counted.
	MaxTinyNumbers = 64
	// MaxCanonical is the longest text that is brought into canonical form, in
	// bytes.
	MaxCanonical = 16 << 20
	// MaxResponseBody is the largest HTTP answer of a Hub that is read, in
	// bytes. A pulled message repeats the context that it was asked with, by
	// the numbers of §8.0 already 4 MiB, and its state twice.
	MaxResponseBody = 16 << 20
	// MaxPushBody is the largest pushed body that is read by default, in bytes.
	MaxPushBody = 1 << 20
	// MaxSchema is the largest request.schema that is compiled, in bytes.
	MaxSchema = 64 << 10
	// MaxSchemaProperties is how many properties a flat input schema may have.
	MaxSchemaProperties = 128
)

// Bounds on wire fields (§4).
const (
	MaxTitleRunes = 200
	// MaxIDLen bounds every identifier that is stored or put in a path.
	MaxIDLen = 512
	// MaxKeyLen bounds an idempotency key, in bytes.
	MaxKeyLen = 512
)

// Bounds on text that reaches an error or a log.
const (
	// MaxErrorMessage is how much of a Hub's error message is kept, in bytes.
	MaxErrorMessage = 512
	// MaxErrorCode is how much of a Hub's error code is kept, in bytes.
	MaxErrorCode = 64
	// MaxQuoted is how much of an unexpected enum value is quoted, in bytes.
	MaxQuoted = 32
)

// Bounds on the signature header (§9.2).
const (
	MaxHeader = 4096
	MaxJTI    = 256
	// MaxV1 is how many signatures one header may carry.
	MaxV1 = 8
	// MaxTDigits is the longest t, in ASCII digits.
	MaxTDigits = 12
)

// Times of the protocol and of the client.
const (
	// MaxHold is the longest long-poll hold that may be asked for (§8.2).
	MaxHold = 60 * time.Second
	// HoldGrace is how long past the hold an answer is awaited.
	HoldGrace = 10 * time.Second
	// ReplayWindow is how far t may be from now, both sides, inclusive (§9.2).
	ReplayWindow = 120 * time.Second
	// DefaultKeyRetention is how long a Hub is taken to remember an
	// idempotency key (§8.1).
	DefaultKeyRetention = 24 * time.Hour
)
