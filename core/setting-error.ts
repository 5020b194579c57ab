/**
 * A setting cannot be used. The message names the setting and shows no secret: the program prints
 * it as it is and exits with `EX_CONFIG`.
 */
export class SettingError extends Error {
  override readonly name: string = 'SettingError'
}

/** The exit code of a program whose settings cannot be used (sysexits.h). */
export const EX_CONFIG = 78
