// Requests to the member under /v1/.

import { authorization, rejectAuthorization } from './credentials.js';

// replyTimeout limits a request, in milliseconds. It is longer than the member waits for others.
const replyTimeout = 15_000;
// pastTimeout limits a request about the past, for which the member may build a state. It is longer than the member works on one.
const pastTimeout = 150_000;

// RequestError is a missing reply or one that reports a failure. Its message is for the user.
export class RequestError extends Error {
  constructor(text, status) {
    super(text);
    this.status = status; // of HTTP; 0 if nothing answered
  }
}

// getJSON returns the reply of a path below /v1/. It omits empty parameters. signal cancels the request. proof
// replaces the stored credentials.
export async function getJSON(path, parameters = {}, signal = undefined, proof = undefined) {
  return (await requestJSON(withParameters(path, parameters), { signal, proof })).answer;
}

// getPast returns the reply of a path with the parameter at, and the zxid and the time of the state that it shows.
export async function getPast(path, parameters, signal) {
  const { answer, headers } = await requestJSON(withParameters(path, parameters), { signal }, pastTimeout);
  return { answer, zxid: headers.get('Rollcall-Zxid'), time: headers.get('Rollcall-Time') };
}

function withParameters(path, parameters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== '' && value != null) {
      query.set(name, value);
    }
  }
  return query.size > 0 ? `${path}?${query}` : path;
}

// clientParameters returns the parameter that selects the rows of a session or of an address. An IPv6 address may be in brackets.
export function clientParameters(text) {
  return /^0x/i.test(text) ? { session: text.toLowerCase() } : { address: text.replace(/^\[([^\]]*)\]$/, '$1') };
}

export async function postJSON(path, body) {
  return (await requestJSON(path, { method: 'POST', body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } })).answer;
}

async function requestJSON(path, init, timeout = replyTimeout) {
  const late = AbortSignal.timeout(timeout);
  init.signal = init.signal ? AbortSignal.any([init.signal, late]) : late;
  const reply = await openReply(path, init);
  try {
    return { answer: await reply.json(), headers: reply.headers };
  } catch (err) {
    throw userError(err);
  }
}

// openReply returns the reply before its body has arrived. The caller reads the body.
export async function openReply(path, init) {
  const sent = init.proof ?? authorization();
  const headers = { ...init.headers, ...(sent && { Authorization: sent }) };
  let answer;
  try {
    answer = await fetch(`/v1/${path}`, { ...init, headers, cache: 'no-store', credentials: 'omit', redirect: 'error' });
  } catch (err) {
    throw userError(err);
  }
  if (answer.ok) {
    return answer;
  }
  const text = await errorText(answer);
  if (answer.status === 401) {
    rejectAuthorization(sent);
  }
  throw new RequestError(text, answer.status);
}

// errorText returns the member's reason for a failure.
async function errorText(answer) {
  const text = await answer.text().catch(() => '');
  try {
    const { error } = JSON.parse(text);
    if (typeof error === 'string' && error !== '') {
      return error;
    }
  } catch {
    // It is plain text.
  }
  return text.trim().split('\n')[0].slice(0, 300) || `The member answers with status ${answer.status}.`;
}

// userError returns the error for the user. It keeps the error of a cancelled request.
function userError(err) {
  switch (err.name) {
    case 'AbortError':
    case 'Refusal':
      return err;
    case 'TimeoutError':
      return new RequestError('The member has not answered in time.', 0);
    case 'SyntaxError':
      return new RequestError('The answer was cut off, or it is not that of a member.', 0);
  }
  return new RequestError('The member does not answer. It is down, or it cannot be reached from here.', 0);
}
