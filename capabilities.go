package ma2h

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ma2h/ma2h-go/types"
)

// How long a capability document is used before it is fetched anew, and how
// long a failed fetch keeps a submit from trying again.
const (
	capabilityTTL      = 10 * time.Minute
	capabilityRetry    = 30 * time.Second
	capabilityDeadline = 5 * time.Second
)

// capabilityCache holds the Hub's document. One fetch serves all who wait.
type capabilityCache struct {
	mu      sync.Mutex
	doc     *types.Capability
	fetched time.Time
	failed  time.Time
	flight  chan struct{} // closed when the fetch under way ends
}

// Capabilities returns what the Hub says it offers: fetched on first need,
// kept for ten minutes, then fetched again; if that fails, the one that was
// kept is returned. The document is the caller's own copy (§8.0).
func (c *Client) Capabilities(ctx context.Context) (*types.Capability, error) {
	if err := c.made(); err != nil {
		return nil, err
	}
	doc, err := c.capabilities(ctx, false)
	if err != nil {
		return nil, err
	}
	out := *doc
	out.AuthSchemes = slices.Clone(doc.AuthSchemes)
	out.CallbackAuthSchemes = slices.Clone(doc.CallbackAuthSchemes)
	out.SignatureAlgs = slices.Clone(doc.SignatureAlgs)
	if doc.MaxContextParts != nil {
		out.MaxContextParts = new(*doc.MaxContextParts)
	}
	if doc.RateLimit != nil {
		out.RateLimit = new(*doc.RateLimit)
	}
	if doc.Inbound != nil {
		out.Inbound = new(*doc.Inbound)
		out.Inbound.SignatureAlgs = slices.Clone(doc.Inbound.SignatureAlgs)
	}
	if doc.Ack != nil {
		out.Ack = new(*doc.Ack)
		out.Ack.SignatureAlgs = slices.Clone(doc.Ack.SignatureAlgs)
	}
	if doc.Presence != nil {
		out.Presence = new(*doc.Presence)
	}
	return &out, nil
}

// limits returns the document for a preflight. A Hub that does not say must
// not keep a message from being sent: then nothing is checked here, and the
// Hub's own answer counts.
func (c *Client) limits(ctx context.Context) (*types.Capability, error) {
	doc, err := c.capabilities(ctx, true)
	if err == nil {
		return doc, nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("ma2h: nothing was sent: %w", contextError(ctx))
	}
	c.log(ctx, slog.LevelWarn, "ma2h: no capability document, sending without a preflight", slog.String("error", err.Error()))
	return &types.Capability{Version: types.V03}, nil
}

// replayWindow is what the document that is held says of mailbox entries
// (§9.7), zero if it says nothing.
func (c *Client) replayWindow() time.Duration {
	c.caps.mu.Lock()
	defer c.caps.mu.Unlock()
	if c.caps.doc == nil {
		return 0
	}
	return time.Duration(min(c.caps.doc.ReplayWindowSeconds, 86400)) * time.Second
}

var errNoCapability = errors.New("the last fetch of the capability document failed, or takes too long")

// capabilities returns the shared document. brief asks once, for a short time,
// and not again soon after a failure.
func (c *Client) capabilities(ctx context.Context, brief bool) (*types.Capability, error) {
	for {
		c.caps.mu.Lock()
		now := c.cfg.Now()
		doc := c.caps.doc
		if doc != nil && now.Sub(c.caps.fetched).Abs() < capabilityTTL {
			c.caps.mu.Unlock()
			return doc, nil
		}
		if (brief || doc != nil) && !c.caps.failed.IsZero() && now.Sub(c.caps.failed).Abs() < capabilityRetry {
			c.caps.mu.Unlock()
			if doc != nil {
				return doc, nil
			}
			return nil, fmt.Errorf("ma2h: %s: %w", opDiscover, errNoCapability)
		}
		flight := c.caps.flight
		if flight == nil {
			c.caps.flight = make(chan struct{})
			c.caps.mu.Unlock()
			return c.refresh(ctx, doc, brief || doc != nil)
		}
		c.caps.mu.Unlock()
		if err := await(ctx, flight, brief); err != nil {
			c.caps.mu.Lock()
			if ctx.Err() == nil {
				c.caps.failed = c.cfg.Now()
			}
			c.caps.mu.Unlock()
			return nil, fmt.Errorf("ma2h: %s: %w", opDiscover, err)
		}
	}
}

// await waits for another caller's fetch. A brief one does not wait as long as
// a caller who has all day.
func await(ctx context.Context, flight <-chan struct{}, brief bool) error {
	if brief {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, capabilityDeadline, errNoCapability)
		defer cancel()
	}
	select {
	case <-flight:
		return nil
	case <-ctx.Done():
		return contextError(ctx)
	}
}

// refresh fetches on behalf of all who wait. It returns the document that was
// kept if it cannot get another.
func (c *Client) refresh(ctx context.Context, kept *types.Capability, brief bool) (*types.Capability, error) {
	var fresh *types.Capability
	var err error
	defer func() {
		c.caps.mu.Lock()
		defer c.caps.mu.Unlock()
		switch {
		case fresh != nil:
			c.caps.doc, c.caps.fetched, c.caps.failed = fresh, c.cfg.Now(), time.Time{}
		case ctx.Err() == nil:
			c.caps.failed = c.cfg.Now()
		}
		close(c.caps.flight)
		c.caps.flight = nil
	}()
	fresh, err = c.fetchCapabilities(ctx, brief)
	switch {
	case err == nil:
		return fresh, nil
	case kept != nil:
		return kept, nil
	}
	return nil, err
}

func (c *Client) fetchCapabilities(ctx context.Context, brief bool) (*types.Capability, error) {
	if brief {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, capabilityDeadline)
		defer cancel()
	}
	reply, err := c.do(ctx, opDiscover, c.url.Host, http.MethodGet, c.base+"/.well-known/ma2h", nil)
	if err != nil {
		return nil, err
	}
	var doc types.Capability
	if err := readDocument(reply.Body, &doc); err != nil {
		return nil, fmt.Errorf("%w: capability document: %w", ErrProtocol, err)
	}
	return &doc, nil
}
