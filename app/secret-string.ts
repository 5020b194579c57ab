import { inspect } from 'node:util'

/** A setting that must never be printed: every way of showing it says `[secret]`. */
export class SecretString {
  readonly #value: string
  constructor(value: string) {
    this.#value = value
  }
  /** The value itself, for the one place that uses it. */
  reveal(): string {
    return this.#value
  }
  toString(): string {
    return '[secret]'
  }
  toJSON(): string {
    return '[secret]'
  }
  [inspect.custom](): string {
    return '[secret]'
  }
}
