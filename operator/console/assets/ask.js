// Asks the member under /v1/.

import { authorization, refused } from './credentials.js';

// patience is how long an answer may take, in milliseconds: longer than the member waits for others.
const patience = 15_000;

// Refusal is an answer that is none, or says no. Its message is for the user.
export class Refusal extends Error {
  constructor(text, status) {
    super(text);
    this.status = status; // of HTTP; 0 if nothing answered
  }
}

// get returns what is below /v1/ at a path. Parameters that are empty are left out. signal gives the question
// up. proof takes the place of the credentials that are held.
export function get(path, parameters = {}, signal = undefined, proof = undefined) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== '' && value != null) {
      query.set(name, value);
    }
  }
  return send(query.size > 0 ? `${path}?${query}` : path, { signal, proof });
}

// post has the member change something.
export function post(path, body) {
  return send(path, { method: 'POST', body: JSON.stringify(body), headers: { 'Content-Type': 'application/json' } });
}

async function send(path, init) {
  const late = AbortSignal.timeout(patience);
  init.signal = init.signal ? AbortSignal.any([init.signal, late]) : late;
  const answer = await open(path, init);
  try {
    return await answer.json();
  } catch (err) {
    throw explained(err);
  }
}

// open returns the answer as it begins. The caller reads its body.
export async function open(path, init) {
  const sent = init.proof ?? authorization();
  const headers = { ...init.headers, ...(sent && { Authorization: sent }) };
  let answer;
  try {
    answer = await fetch(`/v1/${path}`, { ...init, headers, cache: 'no-store', credentials: 'omit', redirect: 'error' });
  } catch (err) {
    throw explained(err);
  }
  if (answer.ok) {
    return answer;
  }
  const text = await words(answer);
  if (answer.status === 401) {
    refused(sent);
  }
  throw new Refusal(text, answer.status);
}

// words returns what the member says about its refusal.
async function words(answer) {
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

// explained returns the error that the user sees. A question that was given up stays what it is.
function explained(err) {
  switch (err.name) {
    case 'AbortError':
    case 'Refusal':
      return err;
    case 'TimeoutError':
      return new Refusal(`The member has not answered within ${patience / 1000} s.`, 0);
    case 'SyntaxError':
      return new Refusal('The answer was cut off, or it is not that of a member.', 0);
  }
  return new Refusal('The member does not answer. It is down, or it cannot be reached from here.', 0);
}
