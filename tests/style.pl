# Finds assertions in bash tests that cannot fail: perl tests/style.pl FILE... prints "file:line: reason" for each.
# Bash's errexit, by which a test fails, is off on the left of && and ||, in conditions and after !, and in all
# functions called from there. See tests/style.bats.
use strict;
use warnings;

# strings, comments, expansions and here-documents without their contents, lines kept
sub bare {
    my ($s) = @_;
    my $out = '';
    my @here;
    my $lines = sub { "\n" x ($_[0] =~ tr/\n//) };
    my $paren;
    $paren = qr/\((?:[^()'"\\]++|\\.|'[^']*+'|"(?:[^"\\]|\\.)*+"|(??{$paren}))*+\)/s;
    my $brace;
    $brace = qr/\{(?:[^{}'"\\]++|\\.|'[^']*+'|"(?:[^"\\]|\\.)*+"|(??{$brace}))*+\}/s;
    my $string;
    $string = qr/"(?:[^"\\\$]++|\\.|\$$paren|\$$brace|\$)*+"/s;
    while (length $s) {
        if ($s =~ s/^\\\n//) { $out .= "\x01" }                               # a line goes on
        elsif ($s =~ s/^\\.//s) { $out .= 'x' }
        elsif ($s =~ s/^((?<![\$\w])#[^\n]*)//) { }
        elsif ($s =~ s/^(\$?'(?:[^'\\]|\\.)*?')// || $s =~ s/^('[^']*')//) {
            $out .= "''" . ($1 =~ tr/\n/\x01/r =~ tr/\x01//cdr);
        }
        elsif ($s =~ s/^($string)//) {
            my $t = $1;
            $out .= ($t =~ /^"\$1"$/ ? '"$1"' : '""') . ($t =~ tr/\n/\x01/r =~ tr/\x01//cdr);
        }
        elsif ($s =~ s/^([\$<>]$paren)//) { $out .= '$x' . ($1 =~ tr/\n/\x01/r =~ tr/\x01//cdr) }
        elsif ($s =~ s/^\$$brace//) { $out .= '$x' }
        elsif ($s =~ s/^(\$#|\$\$|\$[\@*?!-])//) { $out .= '$x' }
        elsif ($s =~ s/^<<<//) { $out .= '<' }
        elsif ($s =~ s/^<<-?\s*['"]?(\w+)['"]?//) { push @here, $1 }
        elsif ($s =~ s/^\[\[ (?:$string|'[^']*'|\\.|[^\]]|\](?!\]))* \]\]//s) { $out .= '[[ ]]' }
        elsif (@here && $s =~ s/^\n//) {
            $out .= "\n";
            for my $word (splice @here) { $s =~ s/^(.*?^\s*$word$)//ms and $out .= $lines->($1) }
        }
        else { $s =~ s/^(\w+|.)//s; $out .= $1 }
        $s =~ s/^([ \t]+#[^\n]*)//;
    }
    $out =~ s/(&&|\|\||\|)[ \t]*\n/$1\x01/g;
    $out =~ s/\n(\s*)(&&|\|\|)/\x01$1$2/g;
    return $out;
}

# statements: [line, text]; keywords that open or close a block stand alone
sub statements {
    my ($s) = @_;
    my ($line, @out) = (1);
    # groups after || and && stay in their statement
    my $group;
    $group = qr/\{\s(?:[^{}]++|(??{$group}))*+\}/s;
    $s =~ s/((?:\|\||&&)\s*)($group)/my ($a, $b) = ($1, $2); $b =~ tr|\n;|\x01\x02|; $a . $b/ge;
    for my $piece (split /(\n|;;|;|(?<=[\s(])(?:then|do|else)(?=\s)|(?<=\))\s*\{(?=\s)|^\s*[()](?=\s|$))/m, $s) {
        my $n = ($piece =~ tr/\n\x01//);
        (my $text = $piece) =~ s/[\n\x01]/ /g;
        $text =~ s/^\s+|\s+$//g;
        if ($text =~ /^[\w-]+\(\)$|^\@test /) { push @out, [$line, $text] }
        elsif (length $text && $text ne ';' ) { push @out, [$line, $text] }
        $line += $n;
    }
    return @out;
}

# shell functions in which errexit is off and a statement before the last could fail without effect
my $quiet = qr/^(?:local|shift|return|echo|printf|unset|trap|read|declare|export|skip|load)\b|^\w+\+?=(?!.*&&)[^ ]*$|^run (?!-\d|!)/;
my $word = qr/^(?:if|elif|while|until|for|case|then|else|fi|do|done|esac|\{|\}|\(|\)|;;|[^\s(]+\))/;

my (%unsafe, %takes, %names, @all);
for my $file (@ARGV) {
    local $/;
    open my $in, '<', $file or die "$file: $!\n";
    my $raw = <$in>;
    my $text = bare($raw);
    my @st = statements($text);
    # functions and tests: from NAME() to its }
    my @open;
    for my $i (0 .. $#st) {
        my ($line, $t) = @{$st[$i]};
        if ($t =~ /^([\w-]+)\(\)$/ || $t =~ /^(\@test)\b/) {
            push @open, {name => $1, from => $i, file => $file, one => 0};
            next;
        }
        if ($t eq '}' && @open) {
            my $f = pop @open;
            $f->{to} = $i;
            push @all, $f;
            $names{$f->{name}} = 1 if $f->{name} ne '@test';
        }
    }
    ($_->{st}, $_->{lines}) = (\@st, [split /^/m, $raw]) for grep { $_->{file} eq $file } @all;
}
my $known = join '|', map { quotemeta } keys %names;

sub safe_end { $_[0] =~ /\|\|\s*(?:return|exit|false|fail|skip)\b|\|\|\s*\{[^}]*\b(?:return|exit|false)\b|\|\|\s*\w+=/ }

# True if statement i is the last of its function.
sub last_of {
    my ($st, $i) = @_;
    while (++$i <= $#$st) {
        my $t = $st->[$i][1];
        next if $t eq 'fi' || $t eq ')' || $t eq 'esac' || $t eq ';;' && $st->[$i + 1][1] eq 'esac';
        if ($t eq 'else' || $t =~ /^elif/) { $i++ while $st->[$i][1] ne 'fi'; next }
        return $t eq '}';
    }
    return 1;
}

for my $f (@all) {
    my $st = $f->{st};
    for my $i ($f->{from} + 1 .. $f->{to} - 1) {
        my $t = $st->[$i][1];
        next if $t =~ $word || $t =~ $quiet || safe_end($t) || $t =~ /^(?:[\w-]+\(\)|true|:|local .*)$/
            || last_of($st, $i);
        $unsafe{$f->{file}}{$f->{name}} //= $st->[$i][0];
    }
    for my $i ($f->{from} + 1 .. $f->{to} - 1) {
        $takes{$1} = 1 if $st->[$i][1] =~ /(?:^|[|&;{]\s*)($known)\s+(?:$known)$/;
    }
}
my $bad = 0;
my %seen;
sub bad {
    my ($f, $line, $why) = @_;
    return if $seen{"$f->{file}:$line:$why"}++;
    print "$f->{file}:$line: $why\n";
    $bad = 1;
}
for my $f (@all) {
    my ($st, $own) = ($f->{st}, {%{$unsafe{'tests/helper.bash'} // {}}, %{$unsafe{$f->{file}} // {}}});
    my $inner = 0;
    for my $i ($f->{from} + 1 .. $f->{to} - 1) {
        my ($line, $t) = @{$st->[$i]};
        if ($t =~ /^!\s/ || $t =~ /(?:&&|\|\|)\s*!\s/) { bad($f, $line, "! never fails a test: write run ! COMMAND") }
        my $condition = $t =~ /^(?:if|elif|while|until)\b/;
        if (!$condition && $t =~ /&&/ && $t !~ /\s&$/ && !safe_end($t) && !last_of($st, $i)) {
            bad($f, $line, "what fails on the left of && fails nothing here: write statements of their own")
        }
        if ($t =~ /^trap\b.*\bEXIT$/) {
            bad($f, $line, "bats misses the failure of a test with a trap on EXIT: write teardown()");
        }
        if ($t =~ /([^|&;{]+)\|\|\s*(?:true|:|echo|printf)\b/ && $1 !~ /^\s*(?:kill|wait|mkfifo|rm|gzip)\b/) {
            bad($f, $line, "the right of || succeeds always")
        }
        for my $name (keys %$own) {
            my $called = $t =~ /(?:^|[|&;{!]\s*|^(?:if|elif|while|until)\s+(?:!\s+)?)\Q$name\E(?=\s|$)(.*)/ ? $1 : undef;
            next unless defined $called;
            bad($f, $line, "$name (line $own->{$name}) goes on after a failure when it is called in a condition")
                if $condition || $called =~ /&&|\|\|/;
        }
        bad($f, $line, "a function called like this goes on after a failure")
            if $takes{$f->{name}} && $t =~ /^"\$1".*(?:&&|\|\|)/;
        if ($t =~ /^run (?!-\d|!)/) {
            my $j = $i + 1;
            if ($st->[$j][1] eq 'else') { $j++ while $st->[$j][1] ne 'fi' } # checked after both branches
            $j++ while $j < $f->{to} && $st->[$j][1] !~ /^(?:run|ok|fails)\b/;
            bad($f, $line, "what run found is not looked at")
                if join('', @{$f->{lines}}[$line - 1 .. $st->[$j][0] - 1]) !~ /\$\{?#?(?:status|output|stderr|lines)/;
        }
    }
}
exit $bad;
