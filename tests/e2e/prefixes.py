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


ALL = (unfinished() | ansi_modes() | private_modes() | margins() | attributes() | colours() | character_sets() | images() | cursor_and_lines() | queries()
       | combined())
