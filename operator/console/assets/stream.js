// Reads the member's events. fetch is used, and not EventSource, which cannot send credentials.

import { openReply } from './requests.js';

// A stream on which nothing came for so long is broken, although the connection may look well: the member
// was stopped, or the network forgot the connection. The member sends something every few seconds.
const silenceTimeout = 15_000; // ms

// After a failure the next try comes later each time, up to longest.
const minRetryDelay = 500; // ms
const maxRetryDelay = 15_000; // ms

// maxLineLength is how long a line may be, in characters: longer than the status of the largest ensemble.
const maxLineLength = 4 << 20;

// Stream reads the events until it is stopped. hear(name, data) is called for each event, and
// tell(state, error, wait) when the state changes: "connecting", "live", or "lost" with the error and the
// milliseconds until the next try.
export class Stream {
  #hear;
  #tell;
  #run = null; // AbortController of the present run
  #failures = 0;
  #timer = 0;

  constructor(hear, tell) {
    this.#hear = hear;
    this.#tell = tell;
  }

  // start connects at once, also if the next try is due later.
  start() {
    this.stop();
    this.#run = new AbortController();
    this.#tell('connecting');
    this.#read(this.#run);
  }

  stop() {
    clearTimeout(this.#timer);
    this.#run?.abort();
    this.#run = null;
  }

  async #read(run) {
    let failure;
    try {
      failure = await this.#events(run);
    } catch (err) {
      failure = err;
    }
    if (run !== this.#run) {
      return; // it was stopped
    }
    run.abort();
    const wait = Math.min(maxRetryDelay, minRetryDelay * 2 ** this.#failures++) * (0.75 + Math.random() / 2);
    this.#timer = setTimeout(() => this.start(), wait);
    this.#tell('lost', failure, wait);
  }

  // events hears events until the stream ends, and returns why it did.
  async #events(run) {
    let quiet = false;
    let watch;
    const heard = () => {
      clearTimeout(watch);
      watch = setTimeout(() => {
        quiet = true;
        run.abort();
      }, silenceTimeout);
    };
    try {
      heard();
      const answer = await openReply('events', { signal: run.signal, headers: { Accept: 'text/event-stream' } });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      const parse = eventParser(this.#hear);
      for (let first = true; ; first = false) {
        const { done, value } = await reader.read();
        if (done) {
          return new Error('The member has ended the stream of events.');
        }
        if (first) {
          this.#failures = 0;
          this.#tell('live');
        }
        heard();
        parse(value);
      }
    } catch (err) {
      if (quiet) {
        return new Error(`Nothing was heard of the member for ${silenceTimeout / 1000} s.`);
      }
      return err.name === 'TypeError' ? new Error('The connection to the member has ended.') : err;
    } finally {
      clearTimeout(watch);
    }
  }
}

// eventParser returns a function that takes the text of a stream of events, piece by piece.
export function eventParser(hear) {
  let rest = '';
  let name = '';
  let data = [];
  return (text) => {
    rest += text;
    const lines = rest.split('\n');
    rest = lines.pop();
    if (rest.length > maxLineLength) {
      throw new Error('The member sends a line that is too long.');
    }
    for (const line of lines.map((one) => one.replace(/\r$/, ''))) {
      const [field, value] = splitField(line);
      if (line === '') {
        if (data.length > 0) {
          hear(name || 'message', JSON.parse(data.join('\n')));
        }
        name = '';
        data = [];
      } else if (field === 'event') {
        name = value;
      } else if (field === 'data') {
        data.push(value);
      }
    }
  };
}

function splitField(line) {
  const at = line.indexOf(':');
  return at < 0 ? [line, ''] : [line.slice(0, at), line.slice(at + 1).replace(/^ /, '')];
}
