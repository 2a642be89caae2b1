"""Bytes that a program may have sent to a terminal before a question is asked: each class of ECMA-48, private modes, strings, images.

`ALL` names each prefix. The names are for messages only.
"""
from __future__ import annotations

ESC, CSI, OSC, DCS, ST = "\x1b", "\x1b[", "\x1b]", "\x1bP", "\x1b\\"


def unfinished() -> dict[str, str]:
    """A string or a sequence without its end."""
    strings = {"osc": "]0;title", "osc_long": "]52;c;" + "QUFB" * 300, "dcs": "Pq", "dcs_sixel": 'P0;1q"1;1;20;20#0;2;0;0;0#0~~', "dcs_tmux": "Ptmux;\x1b",
               "dcs_request": "P$qm", "dcs_termcap": "P+q544e", "dcs_synchronised": "P=1s", "apc": "_text", "apc_kitty": "_Ga=T,f=24,s=10,v=10,m=1;AAAA",
               "pm": "^text", "sos": "Xtext", "title": "kname", "csi": "[", "csi_parameters": "[1;2;3", "csi_intermediate": "[1 ", "csi_private": "[?25",
               "csi_long": "[" + "1;" * 200, "escape": "", "escape_intermediate": "(", "escape_hash": "#", "escape_space": " ", "escape_percent": "%",
               "osc_eight": "]8;;http://a", "osc_inline": "]1337;File=inline=1:AAAA", "osc_palette": "]P0"}
    made = {f"unfinished {name}": ESC + text for name, text in strings.items()}
    made |= {f"unfinished utf8 {size}": b"\xf0\x9f\x98"[:size].decode("utf-8", "surrogateescape") for size in (1, 2, 3)}
    made |= {f"unfinished c1 {byte:02x}": chr(byte) + "text" for byte in (0x90, 0x98, 0x9b, 0x9d, 0x9e, 0x9f)}
    return made


def ansi_modes() -> dict[str, str]:
    return {f"mode {number}{final}": f"{CSI}{number}{final}" for number in (2, 3, 4, 12, 20) for final in "hl"}


def private_modes() -> dict[str, str]:
    numbers = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 18, 19, 25, 30, 35, 38, 40, 41, 42, 43, 44, 45, 46, 47, 66, 67, 69, 80, 95, 1000, 1001, 1002, 1003, 1004, 1005,
               1006, 1007, 1010, 1011, 1015, 1016, 1034, 1035, 1036, 1037, 1039, 1040, 1041, 1042, 1043, 1044, 1045, 1046, 1047, 1048, 1049, 1050, 1051,
               1060, 1061, 1070, 2004, 2026, 2027, 2031, 8452, 9001)
    made = {f"private {number}{final}": f"{CSI}?{number}{final}" for number in numbers for final in "hl"}
    made["column mode"] = f"{CSI}?40h{CSI}?3h"
    made["margins left and right"] = f"{CSI}?69h{CSI}10;20s"
    made["origin with margins"] = f"{CSI}5;8r{CSI}?6h"
    return made


def margins() -> dict[str, str]:
    return {f"margins {top};{bottom}": f"{CSI}{top};{bottom}r" for top, bottom in ((1, 2), (2, 3), (5, 6), (10, 20), (29, 30))}


def attributes() -> dict[str, str]:
    codes = [str(number) for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 21, 30, 37, 40, 47, 53, 90, 97, 100, 107)]
    codes += ["38;5;0", "48;5;0", "38;5;0;48;5;0", "38;2;0;0;0;48;2;0;0;0", "38:2::0:0:0", "30;40", "7;8", "37;47", "58;5;1"]
    return {f"attribute {code}": f"{CSI}{code}m" for code in codes}


def colours() -> dict[str, str]:
    made = {f"osc {number}": f"{OSC}{number};#000000{ST}" for number in (10, 11, 12, 13, 14, 17, 19)}
    made |= {f"palette {number}": f"{OSC}4;{number};#000000{ST}" for number in (0, 7, 8, 15, 255)}
    made |= {"both": f"{OSC}10;#000000{ST}{OSC}11;#000000{ST}", "all colours": "".join(f"{OSC}4;{one};#101010\x07" for one in range(16)),
             "special": f"{OSC}5;0;#000000{ST}", "console palette": "".join(f"{OSC}P{one:x}000000" for one in range(16)) + ST, "white on white": f"{OSC}10;#ffffff{ST}{OSC}11;#ffffff{ST}"}
    return made


def character_sets() -> dict[str, str]:
    made = {f"set {place}{final}": f"{ESC}{place}{final}" for place in "()*+-./" for final in "0AB<"}
    made |= {"shift out": f"{ESC})0\x0e", "lock 2": f"{ESC}*0{ESC}n", "lock 3": f"{ESC}+0{ESC}o", "single 2": f"{ESC}*0{ESC}N", "single 3": f"{ESC}+0{ESC}O",
             "lock right": f"{ESC})0{ESC}~", "latin": f"{ESC}%@", "utf8": f"{ESC}%G", "drawing": f"{ESC}(0", "national": f"{CSI}?42h{ESC}(K"}
    return made


def images() -> dict[str, str]:
    sixel = f'{DCS}0;1q"1;1;600;600#0;2;100;0;0' + "".join("#0!600~-" for _ in range(100)) + ST
    kitty = f"{ESC}_Ga=T,f=24,s=1,v=1,c=100,r=30,z=10;/wAA{ST}"
    return {"sixel": sixel, "sixel on the screen": f"{CSI}H{sixel}", "kitty": kitty, "kitty on the screen": f"{CSI}H{kitty}", "kitty below": kitty.replace("z=10", "z=-10"),
            "iterm": f"{OSC}1337;File=inline=1;width=100%;height=100%:R0lGODlhAQABAIAAAP8AAAAAACwAAAAAAQABAAACAkQBADs=\x07"}


def cursor_and_lines() -> dict[str, str]:
    made = {"cursor hidden": f"{CSI}?25l", "cursor at the end": f"{CSI}999;999H", "double height": f"{ESC}#3", "double height lower": f"{ESC}#4", "double width": f"{ESC}#6",
            "alignment": f"{ESC}#8", "tabs cleared": f"{CSI}3g", "saved elsewhere": f"{CSI}999;999H{ESC}7", "protected": f'{CSI}1"qX{CSI}2J', "guarded": f"{ESC}VX{ESC}W",
            "repeat": f"X{CSI}50b", "scrolled": f"{CSI}20S", "inserted": f"{CSI}20L", "erased": f"{CSI}2J", "soft reset": f"{CSI}!p", "full reset": f"{ESC}c", "style": f"{CSI}6 q",
            "vt52": f"{CSI}?2l", "tektronix": f"{CSI}?38h", "eight bits": f"{ESC} G", "level": f'{CSI}61"p', "other keys": f"{CSI}>4;2m", "kitty keys": f"{CSI}>31u",
            "application keys": f"{ESC}=", "status line": f"{CSI}1$~", "rectangle": f"{CSI}88;1;1;30;100$x", "columns": f"{CSI}132$|", "pages": f"{CSI}2 P"}
    made |= {f"control {byte:02x}": chr(byte) for byte in range(0x20) if byte not in (0x0a, 0x0d, 0x1b)}
    return made


def queries() -> dict[str, str]:
    asked = {"position": f"{CSI}6n", "position private": f"{CSI}?6n", "status": f"{CSI}5n", "attributes": f"{CSI}c", "secondary": f"{CSI}>c", "tertiary": f"{CSI}=c", "mode": f"{CSI}?7$p",
             "settings": f"{DCS}$qm{ST}", "colour": f"{OSC}11;?{ST}", "palette": f"{OSC}4;0;?{ST}", "size": f"{CSI}18t", "version": f"{CSI}>q", "keys": f"{CSI}?u", "checksum": f"{CSI}1;1;1;1;2;2*y"}
    made = {f"query {name}": text for name, text in asked.items()}
    return made | {f"query {name} often": text * 50 for name, text in asked.items()} | {"query position, then a string": f"{CSI}6n" * 20 + f"{OSC}0;"}


def combined() -> dict[str, str]:
    return {"hidden and unfinished": f"{CSI}8m{CSI}5;6r{OSC}0;", "all at once": f"{CSI}?5h{CSI}4h{CSI}?6h{CSI}2;3r{CSI}8m{ESC}(0{OSC}10;#000{ST}{OSC}11;#000{ST}{DCS}q",
            "alternate and unfinished": f"{CSI}?1049h{OSC}2;", "synchronised and unfinished": f"{CSI}?2026h{OSC}2;", "nested tmux": f"{DCS}tmux;{ESC}{ESC}]52;c;"}


def escapes() -> dict[str, str]:
    """ESC and one byte (ECMA-48, 5.3: Fp, Fe, Fs), and with one intermediate byte (ECMA-35: nF)."""
    strings = "P[X]^_k"  # `unfinished` has them
    made = {f"escape {chr(byte)}": ESC + chr(byte) for byte in range(0x30, 0x7f) if chr(byte) not in strings}
    return made | {f"escape {chr(byte)}0": f"{ESC}{chr(byte)}0" for byte in range(0x20, 0x30)}


def eight_bit_controls() -> dict[str, str]:
    """C1 as characters of UTF-8, and as single bytes."""
    made = {f"c1 {byte:02x}": chr(byte) for byte in range(0x80, 0xa0)}
    return made | {f"c1 byte {byte:02x}": bytes([byte]).decode("utf-8", "surrogateescape") for byte in range(0x80, 0xa0)}


def sequences() -> dict[str, str]:
    """CSI with each final byte: alone, after a space (ECMA-48, 8.3), and as DEC and xterm use other intermediate and private bytes."""
    made = {f"csi {chr(byte)}": f"{CSI}2{chr(byte)}" for byte in range(0x40, 0x7f)}
    made |= {f"csi space {chr(byte)}": f"{CSI}2 {chr(byte)}" for byte in range(0x40, 0x7f)}
    intermediate = ("!p", '"p', '"q', '"v', "$r", "$t", "$u", "$v", "$w", "$x", "$z", "${", "$|", "$}", "$~", "&u", "'s", "'t", "'w", "'z", "'{", "'|", "'}", "'~",
                    "*x", "*y", "*z", "*{", "*|", "#P", "#Q", "#R", "#S", "#p", "#q", "#{", "#}", "#|", ")p", "+p", "+q", "+r", "+w", ",p", ",q", ",|", ",}", ",~", "-p", "-q")
    private = ("?J", "?2J", "?2K", "?5i", "?5W", "?1;1;0S", "?3;1;0S", "?1u", "=1c", ">1c", ">4;1m", ">4n", ">2p", ">3s", ">1T", ">1t", ">5q", "<1u", "=31;1u", ">1u",
               "?996n", "?2004$p", "5i", "8;40;150t", "22t", "23t", "3J", "22J", "0;0;0;0r", "1;1;1;150$r", "1;1;40;150;8$r", "1;1;40;150;8$t")
    return made | {f"csi {one}": f"{CSI}1{one}" for one in intermediate} | {f"csi {one}": CSI + one for one in private}


def system_commands() -> dict[str, str]:
    numbers = (0, 1, 2, 3, 6, 7, 8, 9, 15, 16, 18, 21, 22, 23, 24, 46, 51, 52, 60, 61, 66, 99, 133, 176, 440, 555, 633, 697, 777, 1337, 5522, 30001, 30101)
    made = {f"osc command {number}": f"{OSC}{number};1{ST}" for number in numbers}
    return made | {"hyperlink": f"{OSC}8;;http://a/{ST}", "colours of kitty": f"{OSC}21;foreground=#000000;background=#000000{ST}",
                   "font": f"{OSC}50;nil2{ST}", "font, with zeros": f"{OSC}050;nil2{ST}", "font of the menu": f"{OSC}50;#1{ST}",
                   "large text": f"{OSC}66;s=7;X{ST}", "highlight": f"{OSC}17;#000000{ST}{OSC}19;#000000{ST}"}


def device_strings() -> dict[str, str]:
    font = "1;1;1;4;1;2;0{ @" + "/".join(["~" * 10] * 2) + ";" + "~" * 10
    strings = {"soft font": font, "soft font in use": font + ST + f"{ESC}( @", "keys": "0;1|17/41", "regis": "pS(E)", "termcap": "+p4d6f", "checksum": "1!~0000",
               "presentation": "1$t1;1;1;@;@;@;0;2;@;BBBB", "sixel size": 'q"1;1;2000;2000', "sixel colours": "q#0;2;0;0;0#7;2;0;0;0#15;2;0;0;0",
               "tmux": f"tmux;{ESC}{ESC}[2J", "screen": "\\033[2J"}
    return {f"dcs {name}": DCS + text + ST for name, text in strings.items()}


def on_the_other_screen() -> dict[str, str]:
    """The command draws on the alternate screen, where the prompt is drawn too."""
    lines = ("double height", "protected", "guarded", "status line", "cursor hidden")
    return {f"alternate, {name}": f"{CSI}?1049h{text}" for name, text in (images() | cursor_and_lines()).items() if name in lines or name in images()}


CLASSES = (unfinished, ansi_modes, private_modes, margins, attributes, colours, character_sets, images, cursor_and_lines, queries, combined, escapes,
           eight_bit_controls, sequences, system_commands, device_strings, on_the_other_screen)
ALL = {name: text for of_class in CLASSES for name, text in of_class().items()}
