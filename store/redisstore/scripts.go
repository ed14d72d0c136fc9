package redisstore

import "github.com/redis/go-redis/v9"

// The scripts. An entry is a hash: t the token, l the end of the lease or 0 if
// it is final or done, r the digest of the resolution; of a submit b the body,
// a the ack, p when it was put. Times are microseconds since 1970 by the
// server's clock; they are exact in Lua's doubles and written with %.0f, since
// its own conversion rounds. Tokens are compared as text.
//
// Each finds its own work done if it comes twice, because the client sends it
// again where a connection breaks. A claim that comes a second time late never
// takes what is final or done by then.
const clock = `
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local function text(n) return string.format('%.0f', n) end
`

// ARGV: token, lease in microseconds, expiry in milliseconds. Returns a
// ReplayState.
var claim = redis.NewScript(clock + `
local e = redis.call('HMGET', KEYS[1], 't', 'l')
if e[1] then
  local l, mine = tonumber(e[2]), e[1] == ARGV[1]
  if l == 0 then return mine and 1 or 3 end
  if now < l and not mine then return 2 end
end
local l = tonumber(ARGV[2])
if l > 0 then l = now + l end
redis.call('HSET', KEYS[1], 't', ARGV[1], 'l', text(l))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
`)

var finalize = redis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSET', KEYS[1], 'l', '0') end
return 1
`)

var unclaim = redis.NewScript(`
local l = redis.call('HGET', KEYS[1], 'l')
if l and l ~= '0' then redis.call('DEL', KEYS[1]) end
return 1
`)

// ARGV: token. Takes back a claim whose caller was told that there is none.
var forget = redis.NewScript(`
if redis.call('HGET', KEYS[1], 't') == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
`)

const actState = clock + `
local e = redis.call('HMGET', KEYS[1], 't', 'l', 'r')
local function state()
  if not e[1] then return 0 end
  if e[3] ~= ARGV[1] then return 5 end
  local l = tonumber(e[2])
  if l == 0 then return 3 end
  if now < l then return 2 end
  return 4
end
`

// ARGV: resolution. Returns an ActState.
var lookup = redis.NewScript(actState + `return state()`)

// ARGV: resolution, token, lease in microseconds, expiry in milliseconds, 1 to
// take a doubt. Returns an ActState.
var reserve = redis.NewScript(actState + `
local s = state()
local mine = e[1] == ARGV[2] and (s == 2 or s == 4)
if s == 0 or mine or (s == 4 and ARGV[5] == '1') then
  redis.call('HSET', KEYS[1], 'r', ARGV[1], 't', ARGV[2], 'l', text(now + tonumber(ARGV[3])))
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
  return 1
end
return s
`)

// ARGV of those that settle: resolution, token, expiry in milliseconds. They
// return 1, or 0 if the token no longer holds the claim.
var commit = redis.NewScript(actState + `
local s = state()
if e[1] ~= ARGV[2] or (s ~= 2 and s ~= 3) then return 0 end
redis.call('HSET', KEYS[1], 'l', '0')
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
`)

var release = redis.NewScript(actState + `
local s = state()
if s == 0 then return 1 end
if e[1] ~= ARGV[2] or s ~= 2 then return 0 end
redis.call('DEL', KEYS[1])
return 1
`)

var doubt = redis.NewScript(actState + `
local s = state()
if e[1] ~= ARGV[2] or (s ~= 2 and s ~= 4) then return 0 end
if s == 2 then redis.call('HSET', KEYS[1], 'l', text(now)) end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
`)

const readSubmit = `
local e = redis.call('HMGET', KEYS[1], 't', 'b', 'a', 'p')
return {e[1], e[2], e[3], e[4] and now - tonumber(e[4])}
`

// ARGV: token, body, expiry in milliseconds.
var put = redis.NewScript(clock + `
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 't', ARGV[1], 'b', ARGV[2], 'p', text(now))
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
` + readSubmit)

var get = redis.NewScript(clock + readSubmit)

// ARGV: ack.
var ackSubmit = redis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('HSETNX', KEYS[1], 'a', ARGV[1]) end
return 1
`)

var drop = redis.NewScript(`
if redis.call('HEXISTS', KEYS[1], 'a') == 0 then redis.call('DEL', KEYS[1]) end
return 1
`)
