import { inspect } from 'node:util'

/** A secret setting. Every conversion to text gives `[secret]`. */
export class SecretString {
  readonly #value: string
  constructor(value: string) {
    this.#value = value
  }
  /** Returns the secret value. */
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
